from __future__ import annotations

import random
import struct
import tracemalloc
import uuid
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyiceberg.manifest as pyiceberg_manifest
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform, TruncateTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakewright.errors import CorruptFile
from lakewright.format.data_file import ADDED, DATA, DELETED, EXISTING, POSITION_DELETES, DataFile, ManifestEntry, ManifestFile
from lakewright.format.manifests import UNASSIGNED, assign_row_ids, read_manifest, read_manifest_list, write_manifest, write_manifest_list

IO = PyArrowFileIO()
KEY = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
TYPES = [
    BooleanType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    StringType(),
    BinaryType(),
    FixedType(3),
    UUIDType(),
    DecimalType(9, 2),
    DecimalType(38, 10),
]
SCHEMA = Schema(*(NestedField(n, f"column {n}", kind, required=False) for n, kind in enumerate(TYPES, 1)), schema_id=4)
IDENTITY = PartitionSpec(*(PartitionField(n, 999 + n, IdentityTransform(), f"column {n}") for n in range(1, len(TYPES) + 1)), spec_id=2)
TRANSFORMED = PartitionSpec(
    PartitionField(8, 1000, DayTransform(), "day"),
    PartitionField(9, 1001, HourTransform(), "hour"),
    PartitionField(13, 1002, BucketTransform(16), "bucket"),
    PartitionField(14, 1003, TruncateTransform(10), "cents"),
    PartitionField(14, 1004, IdentityTransform(), "cents again"),
    PartitionField(2, 1005, VoidTransform(), "nothing"),
    spec_id=3,
)
UNPARTITIONED = PartitionSpec(spec_id=0)
VALUES = {
    2: (True, -1, 2**40, 1.5, -2.5, -3653, 81_068_000_000, -1, 253_402_300_799_999_999, "né/=", b"\x00\xff", b"abc", KEY, Decimal("-14.20"), Decimal("1.0000000001")),
    3: (-3653, -1, 7, Decimal("14.20"), Decimal("-0.01"), None),
    0: (),
}
SPECS = {spec.spec_id: spec for spec in (IDENTITY, TRANSFORMED, UNPARTITIONED)}


def data_file(path: str, spec_id: int, **changes: Any) -> DataFile:
    whole = DataFile(
        file_path=path,
        record_count=10,
        file_size_in_bytes=1234,
        spec_id=spec_id,
        partition=VALUES[spec_id],
        column_sizes={1: 100_000, 2: 2**40},
        value_counts={1: 10, 2: 10},
        null_value_counts={1: 0, 2: 3},
        nan_value_counts={4: 1},
        lower_bounds={1: b"\x00", 10: "é".encode()},
        upper_bounds={1: b"\x01", 10: b""},
        key_metadata=b"key",
        split_offsets=(4, 2**33),
        sort_order_id=1,
    )
    return replace(whole, **changes)


def written(path: Path, spec: PartitionSpec, entries: list[ManifestEntry], **settings: Any) -> ManifestFile:
    settings = {"content": DATA, "snapshot_id": 77, **settings}
    return write_manifest(IO, f"file://{path}/m.avro", spec=spec, schema=SCHEMA, entries=iter(entries), **settings)


def listed(path: Path, *manifests: ManifestFile, sequence_number: int = 5, format_version: int = 2) -> list[ManifestFile]:
    location = f"file://{path}/list.avro"
    write_manifest_list(IO, location, snapshot_id=77, parent_id=None, sequence_number=sequence_number, manifests=manifests, format_version=format_version)
    return read_manifest_list(IO, location)


@pytest.mark.feature("D5")
@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("spec", SPECS.values(), ids=["every type", "transforms", "none"])
def test_what_is_written_is_read(tmp_path: Path, spec: PartitionSpec, format_version: int) -> None:
    files = [data_file("a", spec.spec_id), data_file("b", spec.spec_id, partition=(None,) * len(spec.fields), sort_order_id=None)]
    entries = [ManifestEntry(EXISTING, 1, 3, 2, files[0]), ManifestEntry(DELETED, 77, 4, 4, files[1])]
    (manifest,) = listed(tmp_path, written(tmp_path, spec, entries, format_version=format_version), format_version=format_version)
    assert list(read_manifest(IO, manifest, SPECS)) == entries
    assert [entry.data_file.file_path for entry in read_manifest(IO, manifest, SPECS, live_only=True)] == ["a"]
    assert manifest.manifest_length == (tmp_path / "m.avro").stat().st_size


def test_delete_files_and_v3_fields(tmp_path: Path) -> None:
    vector = data_file("v.puffin", 0, content=POSITION_DELETES, file_format="PUFFIN", referenced_data_file="a", content_offset=4, content_size_in_bytes=9, first_row_id=None)
    manifest = written(tmp_path, UNPARTITIONED, [ManifestEntry(ADDED, None, None, None, vector)], content=1, format_version=3)
    (manifest,) = listed(tmp_path, manifest, format_version=3)
    assert manifest.content == 1
    assert [entry.data_file for entry in read_manifest(IO, manifest, SPECS)] == [vector]


def test_added_entries_inherit_from_the_list(tmp_path: Path) -> None:
    manifest = written(tmp_path, IDENTITY, [ManifestEntry(ADDED, None, None, None, data_file("a", 2))])
    assert (manifest.sequence_number, manifest.min_sequence_number) == (UNASSIGNED, UNASSIGNED)
    (manifest,) = listed(tmp_path, manifest, sequence_number=9)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (9, 9)
    (entry,) = read_manifest(IO, manifest, SPECS)
    assert (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (77, 9, 9)


def test_existing_entries_bring_their_sequence_number(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"entry of a\.parquet has no sequence number"):
        written(tmp_path, UNPARTITIONED, [ManifestEntry(EXISTING, 1, None, None, data_file("a.parquet", 0))])
    entries = [ManifestEntry(EXISTING, 1, 3, 3, data_file("a", 0)), ManifestEntry(DELETED, None, 1, 1, data_file("b", 0))]
    manifest = written(tmp_path, UNPARTITIONED, entries)
    assert manifest.min_sequence_number == 3
    (manifest,) = listed(tmp_path, manifest)
    assert [(entry.snapshot_id, entry.sequence_number) for entry in read_manifest(IO, manifest, SPECS)] == [(1, 3), (77, 1)]


def test_a_list_gives_no_sequence_number_to_another_snapshots_manifest(tmp_path: Path) -> None:
    manifest = written(tmp_path, UNPARTITIONED, [ManifestEntry(ADDED, None, None, None, data_file("a", 0))], snapshot_id=78)
    with pytest.raises(ValueError, match="is not of snapshot 77"):
        listed(tmp_path, manifest)


def test_rows_get_ids_from_the_manifests_first(tmp_path: Path) -> None:
    entries = [ManifestEntry(ADDED, None, None, None, data_file(name, 0)) for name in "ab"]
    entries.insert(1, ManifestEntry(DELETED, 1, 1, 1, data_file("gone", 0)))
    entries.append(ManifestEntry(EXISTING, 1, 1, 1, data_file("c", 0, first_row_id=3)))
    manifest = replace(written(tmp_path, UNPARTITIONED, entries, format_version=3), first_row_id=1000)
    (manifest,) = listed(tmp_path, manifest, format_version=3)
    assert [entry.data_file.first_row_id for entry in read_manifest(IO, manifest, SPECS)] == [1000, None, 1010, 3]


def test_counts_and_partition_summaries(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "f"), PartitionField(10, 1001, IdentityTransform(), "s"), spec_id=1)
    partitions = [(1.5, "b"), (float("nan"), "a"), (-2.0, None), (None, "é")]
    states = [ADDED, ADDED, EXISTING, DELETED]
    entries = [ManifestEntry(state, 1, 1, 1, replace(data_file(str(n), 0), partition=p, spec_id=1)) for n, (state, p) in enumerate(zip(states, partitions, strict=True))]
    manifest = written(tmp_path, spec, entries)
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) == (2, 1, 1)
    assert (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count) == (20, 10, 10)
    assert manifest.partitions is not None
    number, text = manifest.partitions
    assert (number.contains_null, number.contains_nan) == (True, True)
    assert (number.lower_bound, number.upper_bound) == (struct.pack("<f", -2.0), struct.pack("<f", 1.5))
    assert (text.contains_null, text.contains_nan, text.lower_bound, text.upper_bound) == (True, False, b"a", "é".encode())
    assert listed(tmp_path, manifest)[0].partitions == manifest.partitions


def test_a_day_past_the_calendar(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(6, 1000, IdentityTransform(), "d"), spec_id=1)
    manifest = written(tmp_path, spec, [ManifestEntry(ADDED, None, None, None, data_file("a", 0, partition=(10_000_000,)))])
    (entry,) = read_manifest(IO, manifest, {1: spec})
    assert entry.data_file.partition == (10_000_000,)


def test_without_metrics(tmp_path: Path) -> None:
    file = data_file("a", 2)
    manifest = written(tmp_path, IDENTITY, [ManifestEntry(ADDED, None, None, None, file)])
    (entry,) = read_manifest(IO, manifest, SPECS, with_metrics=False)
    bare = replace(file, column_sizes={}, value_counts={}, null_value_counts={}, nan_value_counts={}, lower_bounds={}, upper_bounds={})
    assert entry.data_file == bare


def ids_missing(schema: Any, place: str = "") -> Iterator[str]:
    if isinstance(schema, list):
        for branch in schema:
            yield from ids_missing(branch, place)
    elif isinstance(schema, dict) and schema["type"] == "record":
        for field in schema["fields"]:
            if "field-id" not in field:
                yield f"{place}.{field['name']}"
            yield from ids_missing(field["type"], f"{place}.{field['name']}")
    elif isinstance(schema, dict) and schema["type"] == "array":
        if "element-id" not in schema and schema.get("logicalType") != "map":
            yield f"{place}[]"
        yield from ids_missing(schema["items"], place)


@pytest.mark.parametrize("format_version", [2, 3])
def test_avro_as_other_readers_need_it(tmp_path: Path, format_version: int) -> None:
    manifest = written(tmp_path, IDENTITY, [ManifestEntry(ADDED, None, None, None, data_file("a", 2))], content=1, format_version=format_version)
    listed(tmp_path, manifest, format_version=format_version)
    for name, keys in (
        ("m.avro", {"schema", "schema-id", "partition-spec", "partition-spec-id", "format-version", "content"}),
        ("list.avro", {"snapshot-id", "parent-snapshot-id", "sequence-number", "format-version"}),
    ):
        with (tmp_path / name).open("rb") as stream:
            reader = fastavro.reader(stream)
            (record,) = reader
        assert keys <= set(reader.metadata)
        assert list(ids_missing(reader.writer_schema)) == []
        assert record
    assert reader.metadata["format-version"] == str(format_version)


def test_pyiceberg_reads_ours(tmp_path: Path) -> None:
    file = data_file("a", 2)
    (manifest,) = listed(tmp_path, written(tmp_path, IDENTITY, [ManifestEntry(ADDED, None, None, None, file)]))
    (theirs,) = pyiceberg_manifest.read_manifest_list(IO.new_input(f"file://{tmp_path}/list.avro"))
    assert theirs.manifest_length == manifest.manifest_length
    assert [summary.lower_bound for summary in theirs.partitions or []] == [summary.lower_bound for summary in manifest.partitions or ()]
    (entry,) = theirs.fetch_manifest_entry(IO)
    read = entry.data_file
    assert (entry.snapshot_id, entry.sequence_number) == (77, 5)
    assert (read.file_path, read.record_count, read.file_size_in_bytes, read.split_offsets) == ("a", 10, 1234, [4, 2**33])
    for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        assert dict(getattr(read, name)) == getattr(file, name)
    assert tuple(read.partition[n] for n in range(len(TYPES))) == file.partition


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_we_read_pyicebergs(tmp_path: Path, format_version: Any, codec: Any) -> None:
    file = data_file("a", 2)
    metrics = {name: getattr(file, name) for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")}
    theirs = pyiceberg_manifest.DataFile.from_args(
        content=pyiceberg_manifest.DataFileContent.DATA,
        file_path="a",
        file_format=pyiceberg_manifest.FileFormat.PARQUET,
        partition=Record(*file.partition),
        record_count=10,
        file_size_in_bytes=1234,
        key_metadata=b"key",
        split_offsets=[4, 2**33],
        sort_order_id=1,
        **metrics,
    )
    output = IO.new_output(f"file://{tmp_path}/theirs.avro")
    with pyiceberg_manifest.write_manifest(format_version, IDENTITY, SCHEMA, output, 77, codec) as writer:
        writer.add_entry(pyiceberg_manifest.ManifestEntry.from_args(status=pyiceberg_manifest.ManifestEntryStatus.ADDED, snapshot_id=77, data_file=theirs))
    location = f"file://{tmp_path}/theirs-list.avro"
    with pyiceberg_manifest.write_manifest_list(format_version, IO.new_output(location), 77, None, 5, codec) as lister:
        lister.add_manifests([writer.to_manifest_file()])
    (manifest,) = read_manifest_list(IO, location)
    (entry,) = read_manifest(IO, manifest, SPECS)
    assert entry.data_file == file
    assert (entry.snapshot_id, entry.sequence_number) == (77, 5 if format_version == 2 else 0)


def test_counts_that_an_old_list_leaves_out(tmp_path: Path) -> None:
    entries = [ManifestEntry(ADDED, 77, 0, 0, data_file("a", 2)), ManifestEntry(DELETED, 77, 0, 0, data_file("b", 2))]
    manifest = written(tmp_path, IDENTITY, entries)
    optional = ("added_files_count", "existing_files_count", "deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count")
    fields: list[dict[str, Any]] = [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {"name": "partition_spec_id", "type": "int", "field-id": 502},
        {"name": "added_snapshot_id", "type": ["null", "long"], "field-id": 503},
    ]
    fields += [{"name": name, "type": ["null", "long"], "field-id": n} for name, n in zip(optional, (504, 505, 506, 512, 513, 514), strict=True)]
    old = {name: getattr(manifest, name) for name in ("manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id")}
    with (tmp_path / "old.avro").open("wb") as stream:
        fastavro.writer(stream, {"type": "record", "name": "manifest_file", "fields": fields}, [old])
    (read,) = read_manifest_list(IO, f"file://{tmp_path}/old.avro")
    assert (read.added_files_count, read.existing_files_count, read.deleted_files_count) == (1, 0, 1)
    assert (read.added_rows_count, read.existing_rows_count, read.deleted_rows_count) == (10, 0, 10)
    assert (read.content, read.sequence_number) == (0, 0)


def test_missing_and_truncated_files_are_named(tmp_path: Path) -> None:
    manifest = written(tmp_path, IDENTITY, [ManifestEntry(ADDED, None, None, None, data_file("a", 2))])
    listed(tmp_path, manifest)
    whole = (tmp_path / "m.avro").read_bytes()
    (tmp_path / "m.avro").write_bytes(whole[:-40])
    with pytest.raises(CorruptFile, match=r"m\.avro has .* truncated.*roll the table back"):
        list(read_manifest(IO, manifest, SPECS))
    (tmp_path / "m.avro").unlink()
    with pytest.raises(CorruptFile, match=r"m\.avro is missing.*Restore it"):
        list(read_manifest(IO, manifest, SPECS))
    (tmp_path / "list.avro").write_bytes((tmp_path / "list.avro").read_bytes()[:-20])
    with pytest.raises(CorruptFile, match=r"list\.avro is damaged"):
        read_manifest_list(IO, f"file://{tmp_path}/list.avro")
    (tmp_path / "list.avro").write_bytes(b"")
    with pytest.raises(CorruptFile, match=r"list\.avro is damaged"):
        read_manifest_list(IO, f"file://{tmp_path}/list.avro")


def test_flipped_bytes_never_fail_in_another_way(tmp_path: Path) -> None:
    manifest = written(tmp_path, IDENTITY, [ManifestEntry(ADDED, None, None, None, data_file(str(n), 2)) for n in range(20)])
    whole = (tmp_path / "m.avro").read_bytes()
    chance = random.Random(7)
    caught = 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (tmp_path / "m.avro").write_bytes(damaged)
        for with_metrics in (True, False):
            try:
                list(read_manifest(IO, manifest, SPECS, with_metrics=with_metrics))
            except CorruptFile:
                caught += 1
    assert caught > 100


def test_entries_stream(tmp_path: Path) -> None:
    entries = (ManifestEntry(ADDED, None, None, None, data_file(f"file-{n}", 2)) for n in range(4000))
    tracemalloc.start()
    manifest = write_manifest(IO, f"file://{tmp_path}/m.avro", spec=IDENTITY, schema=SCHEMA, content=DATA, snapshot_id=77, entries=entries)
    assert sum(1 for _ in read_manifest(IO, manifest, SPECS)) == 4000
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 6 * 1024 * 1024


def test_manifests_get_row_ids_in_the_order_of_the_list(tmp_path: Path) -> None:
    added = [ManifestEntry(ADDED, None, None, None, data_file("a", 0)), ManifestEntry(DELETED, 1, 1, 1, data_file("gone", 0))]
    kept = [ManifestEntry(EXISTING, 1, 1, 1, data_file("b", 0, first_row_id=3)), ManifestEntry(EXISTING, 1, 1, 1, data_file("c", 0))]
    first, second = (written(tmp_path, UNPARTITIONED, entries, format_version=3) for entries in (added, kept))
    deletes = replace(first, content=1)
    counted_by_nobody = replace(second, unassigned_rows=None)
    has_one = replace(first, first_row_id=5)
    manifests, next_row_id = assign_row_ids([first, deletes, second, has_one, counted_by_nobody, first], 1000)
    assert [m.first_row_id for m in manifests] == [1000, None, 1010, 5, 1020, 1040]
    assert next_row_id == 1050
    assert first.first_row_id is None


def test_the_written_list_is_returned_as_it_reads(tmp_path: Path) -> None:
    manifest = written(tmp_path, IDENTITY, [ManifestEntry(ADDED, None, None, None, data_file("a", 2))], format_version=3)
    location = f"file://{tmp_path}/list.avro"
    manifests, _ = assign_row_ids([manifest], 7)
    returned = write_manifest_list(IO, location, snapshot_id=77, parent_id=None, sequence_number=5, manifests=manifests, format_version=3, first_row_id=7)
    assert returned == read_manifest_list(IO, location)
    with (tmp_path / "list.avro").open("rb") as stream:
        assert fastavro.reader(stream).metadata["first-row-id"] == "7"
