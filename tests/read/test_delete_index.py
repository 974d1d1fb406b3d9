"""Which deletion vectors and delete files apply to which data files."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from lakewright.errors import CorruptFile, UnsupportedFormat
from lakewright.format.data_file import ADDED, EQUALITY_DELETES, POSITION_DELETES, DataFile, ManifestEntry
from lakewright.read.deletes import DeleteIndex

SPECS = {0: PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"), spec_id=0), 1: PartitionSpec(spec_id=1)}
DATA_FILE = DataFile("data.parquet", 10, 100, spec_id=0, partition=("eu",))


def delete(path: str, sequence_number: int, **fields: Any) -> ManifestEntry:
    file = DataFile(path, 1, 100, **{"spec_id": 0, "partition": ("eu",), "content": POSITION_DELETES, **fields})
    return ManifestEntry(ADDED, 1, sequence_number, sequence_number, file)


def vector(sequence_number: int = 5, of: str | None = "data.parquet", path: str = "v.puffin", **fields: Any) -> ManifestEntry:
    return delete(path, sequence_number, file_format="PUFFIN", referenced_data_file=of, content_offset=4, content_size_in_bytes=40, **fields)


def applying(*entries: ManifestEntry, sequence_number: int = 5, file: DataFile = DATA_FILE) -> list[str]:
    return [d.path for d in DeleteIndex(entries, SPECS).applying_to(file, sequence_number)]


@pytest.mark.parametrize(("vector_number", "applies"), [(4, False), (5, True), (6, True)])
def test_a_vector_applies_to_a_file_that_is_not_newer(vector_number: int, applies: bool) -> None:
    assert applying(vector(vector_number)) == (["v.puffin"] if applies else [])


@pytest.mark.parametrize("elsewhere", [{"partition": ("us",)}, {"spec_id": 1, "partition": ()}, {"of": "other.parquet"}])
def test_a_vector_applies_to_the_file_it_names_in_its_own_partition(elsewhere: dict[str, Any]) -> None:
    assert applying(vector(**elsewhere)) == []


def test_a_partition_of_nan_is_equal_to_itself() -> None:
    file = DataFile("data.parquet", 10, 100, spec_id=0, partition=(float("nan"),))
    assert applying(vector(partition=(float("nan"),)), file=file) == ["v.puffin"]


@pytest.mark.feature("I16")
def test_a_vector_stands_for_all_position_delete_files() -> None:
    files = [delete("partition.parquet", 9), delete("scoped.parquet", 9, referenced_data_file="data.parquet")]
    assert sorted(applying(*files)) == ["partition.parquet", "scoped.parquet"]
    assert applying(*files, vector()) == ["v.puffin"]


def test_a_vector_of_another_file_hides_nothing() -> None:
    assert applying(delete("partition.parquet", 9), vector(of="other.parquet")) == ["partition.parquet"]


def test_equality_deletes_apply_beside_a_vector() -> None:
    values = delete("values.parquet", 6, content=EQUALITY_DELETES, equality_ids=(1,))
    assert applying(vector(), values) == ["v.puffin", "values.parquet"]


def test_vectors_of_several_files_share_a_puffin_file() -> None:
    index = DeleteIndex([vector(of="data.parquet"), vector(of="other.parquet")], SPECS)
    found = index.applying_to(DATA_FILE, 5)
    assert [(d.path, d.data_file.referenced_data_file, d.is_vector, d.is_position) for d in found] == [("v.puffin", "data.parquet", True, True)]


def test_two_vectors_of_one_file_are_refused() -> None:
    with pytest.raises(CorruptFile, match="data.parquet has two deletion vectors, in a.puffin and in b.puffin"):
        DeleteIndex([vector(path="a.puffin"), vector(6, path="b.puffin")], SPECS)


def test_a_vector_without_a_data_file_is_refused() -> None:
    with pytest.raises(CorruptFile, match="v.puffin does not say which data file"):
        DeleteIndex([vector(of=None)], SPECS)


@pytest.mark.parametrize(("content", "kind"), [(POSITION_DELETES, "AVRO"), (POSITION_DELETES, "ORC"), (EQUALITY_DELETES, "PUFFIN")])
def test_other_formats_are_refused(content: int, kind: str) -> None:
    with pytest.raises(UnsupportedFormat, match=f"d is {kind}"):
        DeleteIndex([delete("d", 5, content=content, file_format=kind)], SPECS)
