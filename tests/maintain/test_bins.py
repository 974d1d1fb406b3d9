"""Which files a compaction takes, and which of them together."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.format.data_file import EQUALITY_DELETES, POSITION_DELETES, DataFile
from lakewright.maintain.bins import Sizing, plan_bins
from lakewright.options import resolve
from lakewright.read.deletes import DeleteFile
from lakewright.read.scan import FileScan

MB = 1024 * 1024
SIZING = Sizing.from_options(resolve({"target_file_size_bytes": 100 * MB}, {}, {}))


def scan(name: str, size: float, *deletes: DeleteFile, partition: tuple[Any, ...] = (), spec_id: int = 0) -> FileScan:
    return FileScan(DataFile(name, 1000, int(size * MB), spec_id, partition), 1, 1, deletes)


def vector(of: str, rows: int) -> DeleteFile:
    return DeleteFile(DataFile("v.puffin", rows, 1, 0, content=POSITION_DELETES, file_format="PUFFIN", referenced_data_file=of), 2)


def chosen(*files: FileScan, sizing: Sizing = SIZING) -> list[list[str]]:
    return sorted(sorted(one.data_file.file_path for one in bin_) for bin_ in plan_bins(files, 0, sizing))


@pytest.mark.feature("H8")
def test_small_files_of_a_partition_fill_bins_up_to_the_target_size() -> None:
    assert chosen(scan("a", 40), scan("b", 50), scan("c", 20), scan("d", 74), scan("e", 5)) == [["a", "b"], ["c", "d"]]


def test_files_of_the_right_size_are_left_alone() -> None:
    assert chosen(scan("a", 76), scan("b", 100), scan("c", 179)) == []


def test_a_small_file_alone_is_left_alone_and_a_large_one_is_not() -> None:
    assert chosen(scan("a", 5), scan("b", 181)) == [["b"]]


def test_partitions_do_not_mix() -> None:
    assert chosen(scan("a", 5, partition=(1,)), scan("b", 5, partition=(2,)), scan("c", 5, partition=(1,))) == [["a", "c"]]


@pytest.mark.feature("H4")
def test_deletes_make_a_file_one_to_rewrite() -> None:
    files = scan("a", 100, vector("a", 1)), scan("b", 100), scan("c", 100, vector("c", 600))
    assert chosen(*files) == [["a"], ["c"]]
    assert chosen(*files, sizing=Sizing.from_options(resolve({"target_file_size_bytes": 100 * MB, "compact_delete_ratio": 0.5}, {}, {}))) == [["c"]]


def test_of_other_deletes_it_is_not_known_how_many_rows_they_take() -> None:
    strict = Sizing(100 * MB, 75 * MB, 180 * MB, delete_ratio=0.9)
    equality = DeleteFile(DataFile("e", 1, 1, 0, content=EQUALITY_DELETES, equality_ids=(1,)), 2)
    several = DeleteFile(DataFile("p", 1, 1, 0, content=POSITION_DELETES), 2)
    assert chosen(scan("a", 100, equality), scan("b", 100, several), scan("c", 100), sizing=strict) == [["a"], ["b"]]


def test_what_is_deleted_takes_no_room() -> None:
    assert chosen(scan("a", 90, vector("a", 900)), scan("b", 60)) == [["a", "b"]]


def test_older_specs_stand_for_themselves() -> None:
    old = [scan(name, 90, spec_id=7) for name in "ab"], [scan("c", 5, spec_id=7), scan("d", 6, spec_id=7)]
    assert chosen(*old[0], *old[1], scan("e", 5)) == [["c", "d"]]
    assert chosen(*old[0], *old[1], scan("e", 5), sizing=Sizing(100 * MB, 75 * MB, 180 * MB, old_specs=True)) == [["a", "b", "c", "d"]]


@pytest.mark.feature("H8")
def test_many_files_become_as_few_as_the_target_size_calls_for() -> None:
    """Of whatever sizes: none larger than what counts as large, and one at most that is small."""
    for step in (1, 7, 40, 74):
        files = [scan(f"{n:04d}", 1 + n * step % 74) for n in range(500)]
        sizes = [sum(one.data_file.file_size_in_bytes for one in bin_) / MB for bin_ in plan_bins(files, 0, SIZING)]
        assert max(sizes) < 180 and sum(size < 90 for size in sizes) <= 1, sizes


def test_a_least_number_of_files() -> None:
    few = Sizing(100 * MB, 75 * MB, 180 * MB, min_inputs=3)
    assert chosen(scan("a", 5), scan("b", 5), sizing=few) == []
    assert chosen(scan("a", 5), scan("b", 5), scan("c", 5), sizing=few) == [["a", "b", "c"]]
