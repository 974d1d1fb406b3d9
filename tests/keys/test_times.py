"""Where the time of a keyed write went, as its summary tells."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lakewright import transaction
from lakewright.lake import Lake
from lakewright.rows import execute
from tests.keys.kit import keyed, records

PARTS = ("plan", "shuffle", "write", "commit")
SLOW = 0.4


def times(commit: Any) -> dict[str, int]:
    return {part: int(commit.summary[f"lakewright.{part}-ms"]) for part in PARTS}


@pytest.mark.feature("H13")
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("size", [0, 2**20], ids=["in tasks", "at hand"])
def test_the_parts_are_within_the_whole(lake: Lake, mode: str, size: int) -> None:
    table = keyed(lake, properties={"write.merge.mode": mode})
    table.upsert(records(lake, (1, "eu", 1.0, 1), (2, "us", 2.0, 1)))
    began = time.monotonic()
    commit = table.upsert(records(lake, (2, "us", 3.0, 2), (3, "eu", 3.0, 1)), driver_batch_size_bytes=size)
    took = (time.monotonic() - began) * 1000
    told = times(commit)
    assert sum(told.values()) <= took + len(PARTS) and min(told[part] for part in PARTS if size == 0 or part != "shuffle") > 0
    assert int(commit.summary["lakewright.lookup-ms"]) <= told["plan"]
    in_the_table = table.iceberg.metadata.snapshot_by_id(commit.snapshot_id or 0).summary
    assert in_the_table["lakewright.shuffle-ms"] == str(told["shuffle"]) and in_the_table["lakewright.commit-ms"] is None


@pytest.mark.feature("H13")
def test_each_part_has_the_time_that_was_spent_in_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = keyed(lake)
    table.upsert(records(lake, (1, "eu", 1.0, 1)))
    quick = times(table.upsert(records(lake, (1, "eu", 2.0, 2))))

    def slowed(module: Any, name: str, before: float = 0, after: float = 0) -> dict[str, int]:
        real = getattr(module, name)

        def slow(*given: Any, **how: Any) -> Any:
            time.sleep(before)
            done = real(*given, **how)
            time.sleep(after)
            return done

        with monkeypatch.context() as patched:
            patched.setattr(module, name, slow)
            return times(table.upsert(records(lake, (1, "eu", 2.0, 2)), driver_batch_size_bytes=0))

    slow = {
        "plan": slowed(execute, "plan_merge", before=SLOW),
        "shuffle": slowed(execute, "materialise", before=SLOW),
        "write": slowed(execute, "materialise", after=SLOW),
        "commit": slowed(transaction, "publish", before=SLOW),
    }
    assert all(slow[part][part] >= SLOW * 1000 for part in PARTS), (quick, slow)


@pytest.mark.feature("H13")
@pytest.mark.parametrize("operation", ["bulk_insert", "upsert"])
def test_first_loads_tell_their_times_too(lake: Lake, operation: str) -> None:
    commit = getattr(keyed(lake), operation)(records(lake, (1, "eu", 1.0, 1)))
    assert all(int(commit.summary[f"lakewright.{part}-ms"]) > 0 for part in ("write", "commit"))
    assert int(commit.summary["lakewright.lookup-ms"]) >= 0
