"""The record index is derived: it follows whatever is committed, and losing or spoiling it changes no result."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewright.commit.change import MetadataChange
from lakewright.commit.updates import set_ref
from lakewright.keys.index.record import index as record_index
from lakewright.keys.index.record.pointer import POINTER, index_files, read_pointer
from tests.keys.index_kit import all_files, candidates, contents, files_with, frame, index_folder, keyed, load

if TYPE_CHECKING:
    from lakewright.table import Table

ROWS = {f"k{n:03}": n for n in range(200)}
ASKED = {"k007": -1, "k150": -2, "new": -3}
IS_ASKED = "k in ('k007', 'k150', 'new')"


def scattered(lake: Any, **how: Any) -> Table:
    """Keys lie anywhere, so that nothing but the record index can tell files apart."""
    table = keyed(lake, properties={"lakewright.index": "record", "write.delete.mode": "copy-on-write", **how.pop("properties", {})}, **how)
    load(table, frame(table, ROWS), by_range=False)
    return table


@pytest.fixture(scope="module")
def spoiled(lake: Any) -> tuple[Table, set[str]]:
    """One table for all ways of spoiling its index, which is only looked at, and its files with the keys."""
    table = scattered(lake)
    exact(table)
    return table, files_with(table, IS_ASKED)


def exact(table: Table) -> None:
    assert candidates(table, frame(table, ASKED)) == files_with(table, IS_ASKED) < all_files(table)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def part(folder: Path, kind: str) -> Path:
    run = json.loads((folder / POINTER).read_text())["index"]["runs"][0]
    return folder / (run["shards"]["0"] if kind == ".parquet" else run["files"])["name"]


def other_version(pointer: Path) -> None:
    stored = json.loads(pointer.read_text())
    stored["index"]["version"] = 99
    pointer.write_text(json.dumps(stored))


def renumbered_shard(pointer: Path) -> None:
    """Still readable, and without its checksum it would be believed that no key is in the index."""
    stored = json.loads(pointer.read_text())
    run = stored["index"]["runs"][0]
    run["shards"] = {"1": run["shards"]["0"]}
    pointer.write_text(json.dumps(stored))


SPOILS: dict[str, Callable[[Path], object]] = {
    "a byte of a shard": lambda f: flip(part(f, ".parquet"), 40),
    "a byte of a shard's footer": lambda f: flip(part(f, ".parquet"), -30),
    "a shard deleted": lambda f: part(f, ".parquet").unlink(),
    "a byte of the list of files": lambda f: flip(part(f, ".json"), 20),
    "the pointer cut short": lambda f: os.truncate(f / POINTER, 100),
    "a pointer of another version": lambda f: other_version(f / POINTER),
    "a shard under another number": lambda f: renumbered_shard(f / POINTER),
}


@pytest.mark.feature("H3")
@pytest.mark.parametrize("how", SPOILS)
def test_a_damaged_index_is_said_once_and_made_anew(spoiled: tuple[Table, set[str]], how: str, caplog: pytest.LogCaptureFixture) -> None:
    table, there = spoiled
    SPOILS[how](index_folder(table))
    with caplog.at_level("WARNING", "lakewright"):
        found = candidates(table, frame(table, ASKED))
        assert found >= there
        assert [record.message.split(":")[0] for record in caplog.records] == [
            f"the record index of {table.name} is damaged and made anew{'' if found == there else ', all files are read'}"
        ]
        caplog.clear()
        assert candidates(table, frame(table, ASKED)) == there
        assert not caplog.records


@pytest.mark.feature("H3")
def test_no_result_changes_with_a_damaged_or_dropped_index(lake: Any) -> None:
    table, model = scattered(lake), dict(ROWS)
    for turn in range(2):
        SPOILS["a byte of a shard"](index_folder(table)) if turn else None
        batch = {f"k{n:03}": 1000 * turn for n in range(turn, 230, 70)}
        table.upsert(frame(table, batch))
        model |= batch
    assert contents(table) == model
    table.drop_index()
    assert not index_folder(table).exists()
    table.drop_index()
    table.delete_keys(frame(table, {"k000": 0, "gone": 0}))
    del model["k000"]
    assert contents(table) == model and (index_folder(table) / POINTER).exists()


@pytest.mark.feature("H3")
def test_it_follows_what_others_commit_and_a_rollback(lake: Any) -> None:
    table = scattered(lake)
    first = table.refresh()._state.metadata.head()
    assert first is not None
    exact(table)
    table.delete("v % 2 = 0")  # rewrites files
    table.overwrite(frame(table, {**ROWS, "new": 5}))
    assert candidates(table, frame(table, ASKED)) == files_with(table, IS_ASKED)
    pointer = read_pointer(table._state.io, table.location)
    assert pointer is not None and pointer.snapshot_id == table._state.metadata.head().snapshot_id  # type: ignore[union-attr]
    table._changed(MetadataChange("roll back", lambda _: [set_ref("main", first.snapshot_id, "branch")]))
    exact(table)
    table.create_branch("side")
    table.upsert(frame(table, {"k007": 70, "side": 1}), branch="side")
    table.upsert(frame(table, {"k007": 72, "side": 2}))
    assert contents(table) == {**ROWS, "k007": 72, "side": 2}
    table.upsert(frame(table, {"k007": 71, "side": 3}), branch="side")
    assert sorted((row.k, row.v) for row in table.read(ref="side").collect()) == sorted({**ROWS, "k007": 71, "side": 3}.items())


@pytest.mark.feature("H3")
def test_runs_are_merged_and_old_parts_go(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_index, "MOST_RUNS", 2)
    monkeypatch.setattr(record_index, "ROWS_PER_SHARD", 60)
    table = scattered(lake)
    merged = []
    for turn in range(3):
        exact(table)
        pointer = read_pointer(table._state.io, table.location)
        assert pointer is not None and pointer.shards == 4
        assert {path.name for path in index_folder(table).iterdir()} == {POINTER, *(p.name for p in pointer.parts)}
        merged.append(len(pointer.runs))
        table.bulk_insert(frame(table, {f"{turn}{n}": n for n in range(3 if turn else 90)}), trust=True)
    assert merged == [1, 2, 2]
    assert pointer.rows == 200 + 90 + 3


@pytest.mark.feature("H3")
def test_two_writers_catch_up_at_once(lake: Any) -> None:
    table = scattered(lake)
    found: list[set[str]] = []
    writers = [threading.Thread(target=lambda: found.append(candidates(lake.table(table.name), frame(table, ASKED)))) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert found == [files_with(table, IS_ASKED)] * 2
    stale = (index_folder(table) / POINTER).read_bytes()
    table.drop_index()
    exact(table)
    (index_folder(table) / POINTER).write_bytes(stale)  # one that lost its parts to another writer
    assert candidates(table, frame(table, ASKED)) >= files_with(table, IS_ASKED)
    exact(table)


@pytest.mark.feature("H3")
def test_auto_uses_the_index_where_there_is_one(lake: Any) -> None:
    table = scattered(lake, properties={"lakewright.index": "auto"})
    assert candidates(table, frame(table, ASKED)) == all_files(table) and not index_folder(table).exists()
    assert candidates(table, frame(table, ASKED), index="record") == files_with(table, IS_ASKED)
    exact(table)
    table.drop_index()
    assert candidates(table, frame(table, ASKED)) == all_files(table) and not index_folder(table).exists()


@pytest.mark.feature("H3")
def test_a_key_of_another_type_is_hashed_anew(lake: Any) -> None:
    table = keyed(lake, "k int, v bigint", properties={"lakewright.index": "record"})
    rows = lake.spark.range(200).selectExpr("int(id) as k", "id as v")
    load(table, rows, by_range=False)
    asked = rows.where("v in (7, 150)")
    assert candidates(table, asked) == files_with(table, "v in (7, 150)")
    table.evolve_schema(promote={"k": "bigint"})
    assert candidates(table, asked) == files_with(table, "v in (7, 150)")


@pytest.mark.feature("H3")
def test_where_it_cannot_be_written_all_files_are_read(lake: Any, caplog: pytest.LogCaptureFixture) -> None:
    table = scattered(lake)
    index_folder(table).parent.write_text("in the way")
    assert candidates(table, frame(table, ASKED)) == all_files(table)
    assert "is not used, all files are read" in caplog.text


@pytest.mark.feature("H3")
def test_clean_up_keeps_the_index_and_takes_what_it_left(lake: Any) -> None:
    table = scattered(lake)
    exact(table)
    stray = index_folder(table) / "0123456789abcdef.parquet"
    stray.write_bytes(b"of an index that was replaced")
    for path in index_folder(table).iterdir():
        os.utime(path, (1, 1))
    removed = table.remove_orphans()
    assert [Path(path).name for path in removed.files] == [stray.name]
    assert {Path(path).name for path in index_files(table._state.io, table.location)} == {path.name for path in index_folder(table).iterdir()}
    lake.drop_table(table.name, purge=True)
    assert not index_folder(table).exists()
