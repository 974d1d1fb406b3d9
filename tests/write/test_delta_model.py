"""Random files and deltas through both materialisers, against the plain-Python model."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from lakewright.options import resolve
from lakewright.plan.delta import COPY_ON_WRITE, DELETE, INSERT, MATCH, MERGE_ON_READ, MOVE, UPDATE
from lakewright.plan.partitioning import build_spec
from lakewright.plan.types import schema_from
from lakewright.plan.write_plan import WritePlan
from lakewright.write import rows_apart
from tests.write.delta_kit import Change, Kit

SET_APART = {"LEAST_ROWS": 0, "LEAST_ENCODED": 0.0, "LEAST_OLD_BY_CHANGED": 2}  # whenever anything stays as it was
SCHEMA = schema_from("id bigint, p int, t string, x double, s struct<a: int, l: array<string>>")
VALUES = {
    "t": st.none() | st.text(max_size=5),
    "x": st.none() | st.floats(allow_nan=False, width=32),
    "s": st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(-5, 5), "l": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=3)}),
}


def plan(folder: Path, partitioned: bool) -> WritePlan:
    spec = build_spec(SCHEMA, ["p"]) if partitioned else UNPARTITIONED_PARTITION_SPEC
    return WritePlan("db.t", "run", f"file://{folder}/t/data/run", SCHEMA, spec, UNSORTED_SORT_ORDER, "arrow", "none", resolve({}, {}, {}), {}, None)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    files, next_id = [], 0
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 40))
        rows = [{"id": next_id + n, "p": 1, **{name: draw(values) for name, values in VALUES.items()}} for n in range(count)]
        gone = draw(st.sets(st.integers(0, count - 1), max_size=count // 3))
        files.append((rows, draw(st.sampled_from([3, 10, 100])), sorted(gone)))
        next_id += count
    mode = draw(st.sampled_from([COPY_ON_WRITE, MERGE_ON_READ]))
    assigned = tuple(draw(st.sets(st.sampled_from(sorted(VALUES)), min_size=1)))
    changes = []
    for number, (rows, _, gone) in enumerate(files):
        wanted = draw(st.sampled_from([0.0, 0.1, 1.0]))
        for at in range(len(rows)):
            if at in gone or draw(st.floats(0, 1)) > wanted:
                continue
            action = draw(st.sampled_from([MATCH, DELETE, MOVE] + ([UPDATE] if mode == COPY_ON_WRITE else [])))
            values = {name: draw(strategy) for name, strategy in VALUES.items()} if action in (MOVE, UPDATE) else {}
            changes.append(Change(action, number, at, {"id": rows[at]["id"], "p": draw(st.sampled_from([1, 2])), **values}, clause=action))
    changes += [Change(INSERT, values={"id": 10_000 + n, "p": n % 2}, clause=INSERT) for n in range(draw(st.integers(0, 3)))]
    return {"files": files, "mode": mode, "assigned": assigned, "changes": changes, "version": draw(st.sampled_from([2, 3])), "partitioned": draw(st.booleans()), "apart": draw(st.booleans())}


@given(case=cases())
def test_both_materialisers_agree_with_the_model(tmp_path_factory: Any, case: dict[str, Any]) -> None:
    kit = Kit(plan(tmp_path_factory.mktemp("delta"), case["partitioned"]), case["mode"], case["version"], case["assigned"])
    for rows, group_rows, gone in case["files"]:
        kit.add(rows, group_rows=group_rows, partition=(1,) if case["partitioned"] else (), **{"vector" if case["version"] == 3 else "deleted": gone})
    changes = case["changes"]
    expected = kit.expected(*changes)
    with patch.multiple(rows_apart, **SET_APART) if case["apart"] else nullcontext():
        message = kit.run(*changes, batch_rows=7)
    assert kit.live(message) == expected
    counted = [c.clause for c in changes if c.action != MATCH]
    assert message.counts == {clause: counted.count(clause) for clause in set(counted)}
    if case["mode"] == COPY_ON_WRITE:
        new = sum(c.action in (UPDATE, MOVE, INSERT) for c in changes)
        assert message.copied == sum(f.record_count for f in message.files) - new
