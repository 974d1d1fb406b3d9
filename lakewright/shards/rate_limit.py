"""Limits on operations and bytes per second, for a store that others use too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

BURST_SECONDS = 0.1  # what a bucket holds, and what one slice of rows may take: little against any second that is looked at


@dataclass
class TokenBucket:
    """So many tokens a second. `take` waits until those taken before have come in, and then takes on credit."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _paid_until: float = field(default=float("-inf"), init=False)

    def take(self, tokens: float) -> None:
        now = self.clock()
        self._paid_until = max(self._paid_until, now - BURST_SECONDS)
        if self._paid_until > now:
            self.sleep(self._paid_until - now)
        self._paid_until += tokens / self.rate


@dataclass
class RateLimit:
    """One bucket for operations and one for bytes, each where a limit is set."""

    operations: TokenBucket | None = None
    bytes: TokenBucket | None = None

    @classmethod
    def of(cls, operations_per_second: float | None, bytes_per_second: float | None) -> RateLimit:
        return cls(TokenBucket(operations_per_second) if operations_per_second else None, TokenBucket(bytes_per_second) if bytes_per_second else None)

    def admitted(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in slices, each as soon as the limits allow it."""
        if not self.operations and not self.bytes:
            yield batch
            return
        step = self._slice_rows(batch)
        for start in range(0, batch.num_rows, step):
            rows = batch.slice(start, step)
            if self.operations:
                self.operations.take(rows.num_rows)
            if self.bytes:
                self.bytes.take(rows.nbytes)
            yield rows

    def _slice_rows(self, batch: pa.RecordBatch) -> int:
        limits: list[int] = [batch.num_rows]
        if self.operations:
            limits.append(int(self.operations.rate * BURST_SECONDS))
        if self.bytes:
            limits.append(int(self.bytes.rate * BURST_SECONDS * batch.num_rows / max(1, batch.nbytes)))
        return max(1, min(limits))
