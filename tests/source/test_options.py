from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.errors import ConfigurationError, InvalidOption, LakewrightError, UnknownOption, UnsupportedOperation
from lakewright.source.options import ReadOptions, place, read_options, write_options

HERE = {"lake": "lake", "path": "nyc.trips"}


def test_the_lake_is_found_from_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = place(HERE)
    assert (found.lake.location, found.identifier, found.name) == (f"file://{tmp_path}/lake", ("nyc", "trips"), "nyc.trips")


def test_catalog_options_go_to_the_catalog() -> None:
    found = place({"lake": "s3://b/w", "path": "a.b.c", "catalog.type": "rest", "catalog.uri": "http://rest", "catalog.s3.endpoint": "http://store"})
    assert found.lake.catalog_properties == {"type": "rest", "uri": "http://rest", "s3.endpoint": "http://store", "warehouse": "s3://b/w"}


@pytest.mark.parametrize(
    ("options", "message"), [({"path": "nyc.trips"}, '"lake" is missing'), ({"lake": "x"}, "No table"), ({"lake": "x", "path": "trips"}, "not a table name")]
)
def test_what_is_missing_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        place(options)


@pytest.mark.feature("H14")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ReadOptions()),
        ({"snapshot-id": "12"}, ReadOptions(snapshot_id=12)),
        ({"as-of-timestamp": "1700000000000"}, ReadOptions(as_of=1700000000000)),
        ({"as-of-timestamp": "2024-05-01T12:00:00"}, ReadOptions(as_of="2024-05-01T12:00:00")),
        ({"branch": "audit"}, ReadOptions(ref="audit")),
        ({"tag": "v1"}, ReadOptions(ref="v1")),
    ],
)
def test_versions_to_read(options: dict[str, str], expected: ReadOptions) -> None:
    assert read_options({**HERE, **options}) == expected


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"snapshot-id": "1", "tag": "v"}, InvalidOption, "snapshot-id and tag"),
        ({"snapshot-id": "x"}, InvalidOption, "whole number"),
        ({"snapshotid": "1"}, UnknownOption, "Did you mean snapshot-id"),
    ],
)
def test_bad_read_options(options: dict[str, str], error: type[LakewrightError], message: str) -> None:
    with pytest.raises(error, match=message):
        read_options({**HERE, **options})


@pytest.mark.feature("P1")
def test_a_write_sorts_its_options() -> None:
    given = {**HERE, "branch": "audit", "token": "t", "snapshot-property.job": "7", "merge-schema": "true", "target_file_size_bytes": "9"}
    write = write_options(given, overwrite=False)
    assert (write.branch, write.token, write.snapshot_properties) == ("audit", "t", {"job": "7"})
    assert write.options == {"merge-schema": "true", "target-file-size-bytes": "9"}


@pytest.mark.parametrize(
    ("options", "overwrite", "error", "message"),
    [
        ({"mergeschema": "true"}, False, UnknownOption, "Did you mean merge-schema"),
        ({"tag": "v1"}, False, UnknownOption, "goes to a branch"),
        ({"overwrite-mode": "wild"}, True, InvalidOption, "static, dynamic"),
        ({"overwrite-filter": "a = 1"}, False, InvalidOption, r'\.mode\("overwrite"\)'),
        ({"overwrite-filter": "a = 1", "overwrite-mode": "dynamic"}, True, InvalidOption, "not both"),
    ],
)
def test_bad_write_options(options: dict[str, str], overwrite: bool, error: type[LakewrightError], message: str) -> None:
    with pytest.raises(error, match=message):
        write_options({**HERE, **options}, overwrite)


@pytest.mark.parametrize("options", [{}, {"lake": "lake"}])
def test_save_as_table_and_write_to_are_refused_by_name(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedOperation, match=r"saveAsTable.*writeTo.*lake\.write"):
        write_options(options, overwrite=False)
