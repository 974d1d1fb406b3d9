"""A table and its model side by side: every statement is run on both, and what the table then holds is compared."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import currently_in_test_context, note

from lakewright.commit.result import ROWS_COPIED, ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED, Commit, clause_rows
from lakewright.errors import MultipleMatches
from lakewright.read.scan import plan_scan
from tests.interop.canonical import plain
from tests.rows.expressions import Expression, Row
from tests.rows.metrics import check_metrics
from tests.rows.model import Assignments, Changed, Clause, Held, Model, SeveralMatches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.lake import Lake

GRAFTED, STREAMED, MERGE_ON_READ = "grafted", "streamed", "merge-on-read"
COMMANDS = ("delete", "update", "merge")
TYPES = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "struct": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "list": pa.list_(pa.int32()),
}
DDL = {"long": "bigint", "int": "int", "double": "double", "string": "string", "struct": "struct<a: int, b: string>", "list": "array<int>"}
PLAIN = {"id": "long", "p": "string", "n": "int", "x": "double", "t": "string"}
NESTED = {**PLAIN, "s": "struct", "l": "list"}
LINEAGE = ("_row_id", "_last_updated_sequence_number")
_names = itertools.count()


@dataclass(frozen=True)
class Layout:
    """How changes are materialised, in which format, and what the table looks like."""

    way: str
    version: int
    partitioned: bool
    nested: bool

    def __str__(self) -> str:
        return f"{self.way}-v{self.version}{'-partitioned' * self.partitioned}{'-nested' * self.nested}"

    @property
    def columns(self) -> dict[str, str]:
        return dict(NESTED if self.nested else PLAIN)


LAYOUTS = [
    Layout(way, version, partitioned, nested)
    for way in (GRAFTED, STREAMED, MERGE_ON_READ)
    for version in (2, 3)
    for partitioned in (False, True)
    for nested in (False, True)
]


class Trial:
    """columns: kind of each column by name, in the table's order."""

    def __init__(self, lake: Lake, layout: Layout, *, partition_by: Sequence[str] = ("p",), **properties: str) -> None:
        self.lake, self.layout = lake, layout
        self.columns = layout.columns
        self.model = Model(list(self.columns))
        mode = "merge-on-read" if layout.way == MERGE_ON_READ else "copy-on-write"
        self.table = lake.create_table(
            f"rows.t{next(_names)}",
            ", ".join(f"{name} {DDL[kind]}" for name, kind in self.columns.items()),
            partition_by=list(partition_by) if layout.partitioned else [],
            format_version=layout.version,
            properties={**{f"write.{command}.mode": mode for command in COMMANDS}, "write.parquet.row-group-limit": "3", **properties},
        )
        self.version = layout.version
        self._counts_deletes = properties.get("write.delete.granularity") != "partition"
        self._has_ids = layout.version == 3
        self._ids: set[int] = set()
        self.seen: Counter[str] = Counter()
        self._buckets: int | None = None

    # Statements

    def append(self, rows: Sequence[Row], *, files: int = 2, **how: Any) -> None:
        commit = self.table.append(self.frame(rows, files), **how)
        self.model.append(rows)
        self.check(commit, Changed(inserted=len(rows)), counted=False)

    def delete(self, where: Expression | None = None, *, as_column: bool = False) -> Commit:
        self._before(f"delete {where and where.sql()}")
        expected = self.model.delete(where)
        self.seen["delete"] += expected.deleted
        commit = self.table.delete(_given(where, as_column))
        self.check(commit, expected)
        return commit

    def update(self, values: Assignments, where: Expression | None = None, *, as_column: bool = False) -> Commit:
        self._before(f"update {_shown(values)} where {where and where.sql()}")
        expected = self.model.update(values, where)
        self.seen["update"] += expected.updated
        commit = self.table.update({".".join(path): _given(value, as_column) for path, value in values.items()}, _given(where, as_column))
        self.check(commit, expected)
        return commit

    def merge(self, source: Sequence[Row] | DataFrame, on: Expression, *clauses: Clause, as_column: bool = False) -> Commit | None:
        """None where the source has several rows for one of the table, which the statement must say."""
        rows: Sequence[Row] = source if isinstance(source, Sequence) else source.toArrow().to_pylist()
        self._before(f"merge {rows} on {on.sql()}: " + "; ".join(_clause_text(clause) for clause in clauses))
        builder = self.table.merge(self.frame(rows), _given(on, as_column))
        for clause in clauses:
            builder = _with_clause(builder, clause, as_column)
        before = self.table.iceberg.current_snapshot()
        try:
            expected = self.model.merge(rows, on, clauses)
        except SeveralMatches:
            with pytest.raises(MultipleMatches):
                builder.execute()
            assert self.table.iceberg.current_snapshot() == before
            self.seen["several matches"] += 1
            return None
        self.seen.update({f"{clauses[n].when}: {clauses[n].then}": rows for n, rows in expected.clauses.items()})
        commit = builder.execute()
        self.check(commit, expected, clauses=len(clauses))
        return commit

    # Shape

    def add_column(self, name: str, kind: str) -> None:
        self._evolving("add", name)
        self.table.evolve_schema(add={name: DDL[kind]})
        self.columns[name] = kind
        self.model.columns.append(name)
        for held in self.model.rows:
            held.values[name] = None

    def drop_column(self, name: str) -> None:
        self._evolving("drop", name)
        self.table.evolve_schema(drop=[name])
        del self.columns[name]
        self.model.columns.remove(name)
        for held in self.model.rows:
            del held.values[name]

    def rename_column(self, name: str, new: str) -> None:
        self._evolving("rename", f"{name} to {new}")
        self.table.evolve_schema(rename={name: new})
        self.columns = {new if known == name else known: kind for known, kind in self.columns.items()}
        self.model.columns[self.model.columns.index(name)] = new
        for held in self.model.rows:
            held.values = {new if known == name else known: value for known, value in held.values.items()}

    def promote(self, name: str) -> None:
        self._evolving("promote", name)
        self.table.evolve_schema(promote={name: "bigint"})
        self.columns[name] = "long"

    def upgrade(self) -> None:
        """Rows get their ids with the next commit."""
        self._evolving("upgrade")
        self.table.upgrade(3)
        self.version = 3

    def _evolving(self, how: str, what: str = "") -> None:
        told(f"{how} {what}")
        self.seen[how] += 1

    # Looks

    def frame(self, rows: Sequence[Row], files: int = 2) -> DataFrame:
        arrow = pa.table({name: pa.array([row.get(name) for row in rows], TYPES[kind]) for name, kind in self.columns.items()})
        return self.lake.spark.createDataFrame(arrow).coalesce(files)

    def check(self, commit: Commit, expected: Changed, *, clauses: int = 1, counted: bool = True) -> None:
        assert commit.nothing_written is (expected.rows == 0)
        if counted and expected.rows:
            self._check_counts(commit, expected, clauses)
        if self._has_ids:
            self._check_lineage(commit)
        elif self.version == 3 and not commit.nothing_written:
            self._take_lineage()
        else:
            assert bag(self.table.read().toArrow().to_pylist()) == bag(held.values for held in self.model.rows)
        self.check_files()

    def check_files(self) -> None:
        """What the manifests say of each data file is true of its rows."""
        for scanned in scans(self):
            file = scanned.data_file
            check_metrics(file, self.table.schema, self.table._state.metadata.specs[file.spec_id])

    def _check_counts(self, commit: Commit, expected: Changed, clauses: int) -> None:
        summary = commit.summary
        assert (commit.added_rows, commit.deleted_rows) == (expected.inserted + expected.updated, expected.deleted + expected.updated)
        counts = {ROWS_DELETED: expected.deleted, ROWS_UPDATED: expected.updated, ROWS_INSERTED: expected.inserted}
        if clauses > 1:
            counts |= {clause_rows(n): expected.clauses[n] for n in range(clauses)}
        assert {key: int(summary[key]) for key in counts} == counts
        if self._counts_deletes:  # one delete file for several data files outlives some of them
            assert int(summary["total-records"]) - int(summary["total-position-deletes"]) == len(self.model.rows), dict(summary)
        if self.layout.way == MERGE_ON_READ:
            assert summary[ROWS_COPIED] == "0"

    def _check_lineage(self, commit: Commit) -> None:
        """Rows keep their ids, a changed row says this commit changed it, and a new row has an id that no row ever had."""
        by_id = self._read_by_id()
        for held in self.model.rows:
            held.sequence = commit.sequence_number if held.sequence is None else held.sequence
        known = {held.row_id: held for held in self.model.rows if held.row_id is not None}
        fresh = [held for held in self.model.rows if held.row_id is None]
        assert {i: text(row) for i, row in by_id.items() if i in known} == {i: text(_with_lineage(held)) for i, held in known.items()}
        new = {i: row for i, row in by_id.items() if i not in known}
        assert not set(new) & self._ids
        assert bag({**row, "_row_id": None} for row in new.values()) == bag(_with_lineage(held) for held in fresh)
        ids: dict[str, list[int]] = {}
        for row_id, row in new.items():
            ids.setdefault(text({**row, "_row_id": None}), []).append(row_id)
        for held in fresh:
            held.row_id = ids[text(_with_lineage(held))].pop()
        self._ids |= set(by_id)

    def _take_lineage(self) -> None:
        """The first commit after an upgrade: every row has an id now, and which commit changed it before is not known."""
        by_id = self._read_by_id()
        assert bag({name: row[name] for name in self.columns} for row in by_id.values()) == bag(held.values for held in self.model.rows)
        self.model.rows = [Held({name: row[name] for name in self.columns}, i, row["_last_updated_sequence_number"]) for i, row in by_id.items()]
        self._has_ids, self._ids = True, set(by_id)

    def _read_by_id(self) -> dict[int, Row]:
        found = self.table.read(metadata=True).select(*(f"`{name}`" for name in self.columns), *LINEAGE).toArrow().to_pylist()
        by_id = {row["_row_id"]: row for row in found}
        assert len(by_id) == len(found) and None not in by_id
        return by_id

    def _before(self, statement: str) -> None:
        """To be streamed, files must be of another partition spec than the current one."""
        told(statement)
        if self.layout.way != STREAMED:
            return
        old = [] if self._buckets is None else [f"bucket({self._buckets}, id)"]
        partitioned_always = self.layout.partitioned or self._buckets is None
        self._buckets = (self._buckets or 2) + 1 if partitioned_always else None
        self.table.evolve_partitions(add=[] if self._buckets is None else [f"bucket({self._buckets}, id)"], drop=old)


def told(what: str) -> None:
    """Shown with an example that fails."""
    if currently_in_test_context():
        note(what)


def scans(trial: Trial) -> Iterator[Any]:
    state = trial.table.refresh()._state
    yield from plan_scan(state.io, state.metadata, state.metadata.head(), with_metrics=True).files


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def text(row: Row) -> str:
    return json.dumps(plain(row), sort_keys=True, ensure_ascii=False)


def bag(rows: Any) -> Counter[str]:
    return Counter(map(text, rows))


def _with_lineage(held: Held) -> Row:
    return {**held.values, "_row_id": held.row_id, "_last_updated_sequence_number": held.sequence}


def _given(expression: Expression | None, as_column: bool) -> Any:
    from pyspark.sql import functions as F

    if expression is None:
        return None
    return F.expr(expression.sql()) if as_column else expression.sql()


def _with_clause(builder: Any, clause: Clause, as_column: bool) -> Any:
    begin = f"when_{clause.when.replace(' ', '_')}_{clause.then}"
    condition = _given(clause.condition, as_column)
    if clause.then == "delete":
        return getattr(builder, begin)(condition=condition)
    if clause.values is None:
        return getattr(builder, f"{begin}_all")(condition=condition)
    return getattr(builder, begin)({".".join(path): _given(value, as_column) for path, value in clause.values.items()}, condition=condition)


def _clause_text(clause: Clause) -> str:
    condition = f" and {clause.condition.sql()}" if clause.condition is not None else ""
    return f"when {clause.when}{condition} {clause.then} {'*' if clause.values is None else _shown(clause.values)}"


def _shown(values: Assignments) -> str:
    return ", ".join(f"{'.'.join(path)} = {value.sql()}" for path, value in values.items())
