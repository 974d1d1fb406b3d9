"""Several processes on one SQLite catalog. tests/interop runs the same checks on other catalogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.format.data_file import DELETED
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.storage import list_files
from lakewright.maintain.orphans import _name, reachable
from tests.faults.writers import Place, check_branches, check_eight_writers, check_writers_with_spec_change


@pytest.mark.feature("I13", "D6")
def test_eight_processes_of_ten_appends(tmp_path: Path) -> None:
    state = check_eight_writers(Place(str(tmp_path / "lake")))
    used = {_name(path) for path in reachable(state)}
    assert [f.path for folder in ("data", "metadata") for f in list_files(state.io, f"{state.metadata.location}/{folder}") if _name(f.path) not in used] == []


@pytest.mark.feature("D1")
def test_the_same_while_the_partitioning_changes(tmp_path: Path) -> None:
    state = check_writers_with_spec_change(Place(str(tmp_path / "lake")))
    head = state.metadata.head()
    assert head is not None
    for manifest in read_manifest_list(state.io, head.manifest_list):
        for entry in read_manifest(state.io, manifest, state.metadata.specs):
            folder = entry.data_file.file_path.split("/data/")[1].split("/")[1]
            field = state.metadata.specs[manifest.partition_spec_id].fields[0].name
            assert entry.status != DELETED and folder == f"{field}={entry.data_file.partition[0]}"


@pytest.mark.feature("I11")
def test_four_processes_on_four_branches(tmp_path: Path) -> None:
    check_branches(Place(str(tmp_path / "lake")))
