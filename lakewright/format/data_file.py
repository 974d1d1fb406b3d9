"""What a manifest says of one file. Attribute names are PyIceberg's, so its evaluators take these objects."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
EXISTING, ADDED, DELETED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data or delete file; partition values are in the order of its spec's fields, in Iceberg's internal form.

    Internal form: int for date, year, month, day, hour and bucket, microseconds for timestamps, Decimal, str, bytes,
    uuid.UUID, bool, float, None.
    """

    file_path: str
    record_count: int
    file_size_in_bytes: int
    spec_id: int
    partition: tuple[Any, ...] = ()
    content: int = DATA
    file_format: str = "PARQUET"
    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] = ()
    equality_ids: tuple[int, ...] = ()
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector: a blob in a Puffin file that others may share, known by the data file it is of."""
        return self.content == POSITION_DELETES and self.file_format.upper() == "PUFFIN"

    def to_bytes(self) -> bytes:
        return pickle.dumps(self, protocol=5)

    @staticmethod
    def from_bytes(data: bytes) -> DataFile:
        restored = pickle.loads(data)
        assert isinstance(restored, DataFile)
        return restored


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One line of a manifest: sequence numbers and snapshot are already inherited from the manifest list when read."""

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile


@dataclass(frozen=True, slots=True)
class PartitionFieldSummary:
    contains_null: bool
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One line of a manifest list. content: 0 data, 1 deletes.

    unassigned_rows: those of live files without a first row id of their own, where that was counted as the manifest was written.
    """

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files_count: int
    existing_files_count: int
    deleted_files_count: int
    added_rows_count: int
    existing_rows_count: int
    deleted_rows_count: int
    partitions: tuple[PartitionFieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None
    unassigned_rows: int | None = field(default=None, compare=False)

    @property
    def has_live_files(self) -> bool:
        return self.added_files_count + self.existing_files_count > 0
