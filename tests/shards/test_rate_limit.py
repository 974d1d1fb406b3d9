"""Rate limits hold over ten seconds, for operations and for bytes, whatever the batches are like."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from lakewright.shards.rate_limit import RateLimit, TokenBucket

SECONDS = 10.0
WITHIN = 0.10


def batch(rows: int, value_bytes: int) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(range(rows), pa.int64()), "value": pa.array([b"x" * value_bytes] * rows)})


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def limit(clock: Clock, operations: float | None = None, size: float | None = None) -> RateLimit:
    return RateLimit(
        TokenBucket(operations, clock, clock.sleep) if operations else None,
        TokenBucket(size, clock, clock.sleep) if size else None,
    )


@pytest.mark.feature("S8")
@pytest.mark.parametrize(("operations", "size"), [(5_000, None), (None, 1_000_000)], ids=["operations", "bytes"])
def test_the_limit_holds_over_ten_seconds(operations: float | None, size: float | None) -> None:
    limited, given = RateLimit.of(operations, size), batch(2_000, 100)
    rows = taken = 0
    begin = time.monotonic()
    while time.monotonic() - begin < SECONDS:
        for part in limited.admitted(given):
            if time.monotonic() - begin >= SECONDS:
                break
            rows, taken = rows + part.num_rows, taken + part.nbytes
    per_second = (rows if operations else taken) / SECONDS
    assert per_second == pytest.approx(operations or size, rel=WITHIN)


@pytest.mark.feature("S8")
@pytest.mark.parametrize("rows", [1, 37, 1_000, 50_000])
@pytest.mark.parametrize(("operations", "size"), [(100, None), (20_000, None), (None, 10_000), (None, 1_000_000), (1_000, 50_000)])
def test_the_limit_holds_for_batches_of_any_size(rows: int, operations: float | None, size: float | None) -> None:
    clock = Clock()
    limited, given = limit(clock, operations, size), batch(rows, 50)
    begin, count, taken = clock.now, 0, 0
    while clock.now - begin < SECONDS:
        for part in limited.admitted(given):
            if clock.now - begin >= SECONDS:
                break
            count, taken = count + part.num_rows, taken + part.nbytes
    shares = ([count / SECONDS / operations] if operations else []) + ([taken / SECONDS / size] if size else [])
    assert max(shares) == pytest.approx(1.0, rel=WITHIN)


@pytest.mark.feature("S8")
def test_time_in_which_nothing_is_written_is_not_saved_up() -> None:
    clock = Clock()
    limited = limit(clock, operations=1_000)
    list(limited.admitted(batch(10, 1)))
    clock.now += 3_600
    begin = clock.now
    list(limited.admitted(batch(10_000, 1)))
    assert clock.now - begin == pytest.approx(10, rel=WITHIN)


def test_without_limits_batches_pass_whole() -> None:
    given = batch(100_000, 10)
    assert [part.num_rows for part in RateLimit.of(None, None).admitted(given)] == [given.num_rows]


def test_a_row_above_a_second_of_bytes_passes_and_is_paid_for() -> None:
    clock = Clock()
    limited = limit(clock, size=1_000)
    begin = clock.now
    assert sum(part.num_rows for part in limited.admitted(batch(3, 5_000))) == 3
    assert clock.now - begin == pytest.approx(10, rel=WITHIN)
