"""Tables that Lakewright wrote, read by engines that others wrote: the same rows everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop import readers
from tests.interop.canonical import canonical
from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.interop.tables import CASES, Case

# Each table is made by both engines where files are cheap, and once in every other place.
ENGINES_AT = {"local": ("native", "arrow"), "postgres": ("native",), "rest": ("arrow",), "hive": ("native",), "s3": ("arrow",), "s3native": ("native",)}


RUNS = [
    (place, case, engine)
    for place, wanted in ENGINES_AT.items()
    for case in CASES
    for engine in [e for e in wanted if e in case.engines] or case.engines[:1]
]


@pytest.fixture(scope="module")
def compared() -> Iterator[list[str]]:
    """Names of the tables the other engines agreed on; a run that compared none is a failure."""
    names: list[str] = []
    yield names
    assert names, "The suite ran on no table."


@pytest.mark.parametrize(("where", "case", "engine"), RUNS, ids=[f"{place}-{case.name}-{engine}" for place, case, engine in RUNS])
def test_every_reader_returns_the_same_rows(where: str, case: Case, engine: str, place_of: Callable[[str], Place], peer: Peer, compared: list[str]) -> None:
    place = place_of(where)
    table = case.build(place.lake, f"suite.{case.name}_{engine}", engine)
    ours = canonical(table.read().toArrow())
    assert len(ours) == case.rows
    assert canonical(readers.spark_runtime(peer, place, table)) == ours
    if "pyiceberg" not in case.misread_by:
        assert canonical(readers.pyiceberg(table)) == ours
    if where == "local":
        assert canonical(readers.duck(table)) == ours
    for ref in case.refs:
        at = canonical(table.read(ref=ref).toArrow())
        assert canonical(peer.sql(f"SELECT * FROM {place.name}.{table.name} VERSION AS OF '{ref}'")) == at
        assert canonical(readers.pyiceberg(table, table.iceberg.snapshot_by_name(ref).snapshot_id)) == at
    compared.append(table.name)
