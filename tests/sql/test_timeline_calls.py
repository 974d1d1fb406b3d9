"""The timeline's procedures in SQL."""

from __future__ import annotations

import pytest

from lakewright.errors import InvalidOption, NotAnAncestor, SavepointNotFound, SqlError
from tests.sql.conftest import Db


@pytest.mark.feature("H6", "H12")
def test_call_timeline(trips: Db) -> None:
    trips.sql("DELETE FROM nyc.trips WHERE id = 3")
    trips.sql("DELETE FROM nyc.trips WHERE id = 4")
    first, second, third = (row[0] for row in trips.rows("SELECT snapshot_id FROM nyc.trips.snapshots ORDER BY committed_at"))
    assert trips.rows("CALL lakewright.savepoint('nyc.trips', 'good')") == [("good", third)]
    assert trips.rows("CALL lakewright.rollback(table => 'nyc.trips', snapshot_id => :id)", {"id": second}) == [("main", second)]
    assert trips.ids() == [1, 2, 4]
    assert trips.rows("CALL lakewright.restore('nyc.trips', name => 'good', branch => 'main')") == [("main", third)]
    assert "lakewright." not in trips.rows("SHOW CREATE TABLE nyc.trips")[0][0]
    assert trips.rows("CALL lakewright.drop_savepoint('nyc.trips', 'good')") == [("good",)]
    expired = "CALL lakewright.expire_snapshots('nyc.trips', older_than => current_timestamp() {} INTERVAL 1 HOUR, retain_last => 2)"
    assert trips.sql(expired.format("-")).collect()[0].expired_snapshots_count == 0
    gone = trips.sql(expired.format("+")).collect()[0]
    assert (gone.expired_snapshots_count, gone.deleted_data_files_count, gone.deleted_manifest_lists_count) == (1, 1, 1)
    assert gone.deleted_position_delete_files_count == gone.deleted_statistics_files_count == 0
    actions = [row[0] for row in trips.rows("SELECT action FROM nyc.trips.timeline")]
    assert actions == ["delete", "delete", "savepoint", "rollback", "restore", "drop savepoint", "expire"]
    assert trips.ids() == [1, 2]
    with pytest.raises(NotAnAncestor, match=str(first)):
        trips.sql(f"CALL lakewright.rollback('nyc.trips', {first})")


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        ("rollback('nyc.trips')", SqlError, "rollback needs snapshot_id"),
        ("savepoint(table => 'nyc.trips')", SqlError, "savepoint needs name"),
        ("restore('nyc.trips', 'no')", SavepointNotFound, "has no savepoint 'no'"),
        ("expire_snapshots('nyc.trips', older_than => 'soon')", InvalidOption, "older_than is 'soon'"),
        ("expire_snapshots('nyc.trips', retain => 1)", SqlError, "has no argument 'retain'"),
    ],
)
def test_bad_calls(lake: object, call: str, kind: type[Exception], says: str) -> None:
    lake.create_table("nyc.trips", "id bigint", if_not_exists=True)  # type: ignore[attr-defined]
    if call.startswith("restore"):
        lake.sql("INSERT INTO nyc.trips VALUES (1)")  # type: ignore[attr-defined]
    with pytest.raises(kind, match=says):
        lake.sql(f"CALL lakewright.{call}")  # type: ignore[attr-defined]
