"""What was asked: every entry (Python, Data Source, command line) builds one of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column

MAIN = "main"


class WriteMode(Enum):
    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite-partitions"


@dataclass(frozen=True)
class WriteRequest:
    """A write of a DataFrame. `where` limits an overwrite; None means the whole table."""

    mode: WriteMode
    where: str | Column | None = None
    overwrite_schema: bool = False
    branch: str = MAIN
    token: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
