"""A delta whose rows are in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class DeltaAtHand:
    """A delta in this process, sorted by FILE and POSITION: DELTA_COLUMNS in `places`; new values are in row `rows[n]` of `values` for the n-th."""

    places: pa.Table
    values: pa.Table
    rows: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.rows)

    def taken(self, chosen: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
        """Some of its rows, whole; who needs a part of them copies no more than that."""
        values = self.values.take(pa.array(self.rows[chosen]))
        return pa.table({**dict(zip(self.places.column_names, self.places.take(pa.array(chosen)).columns, strict=True)), **dict(zip(values.column_names, values.columns, strict=True))})
