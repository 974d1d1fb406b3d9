"""`t.merge(…).when_matched_update(…)….execute()`: clauses are gathered in order and run as one statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakewright.errors import InvalidOption
from lakewright.plan.request import Clause, RowRequest, Then, When

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from lakewright.commit.result import Commit

Condition = "str | Column | None"


class MergeBuilder:
    """A MERGE in the making. Each call returns a new one, so a common beginning can be kept and continued in several ways."""

    def __init__(self, request: RowRequest, run: Callable[[RowRequest], Commit]) -> None:
        self._request = request
        self._run = run

    def when_matched_delete(self, condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(When.MATCHED, Then.DELETE, condition))

    def when_matched_update(self, set: Mapping[str, Any], condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(When.MATCHED, Then.UPDATE, condition, _given(set, "when_matched_update")))

    def when_matched_update_all(self, condition: str | Column | None = None) -> MergeBuilder:
        """Every column from the source's column of the same name."""
        return self._with(Clause(When.MATCHED, Then.UPDATE, condition))

    def when_not_matched_insert(self, values: Mapping[str, Any], condition: str | Column | None = None) -> MergeBuilder:
        """A new row for a source row without a match; columns not named get their default, else null."""
        return self._with(Clause(When.NOT_MATCHED, Then.INSERT, condition, _given(values, "when_not_matched_insert")))

    def when_not_matched_insert_all(self, condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(When.NOT_MATCHED, Then.INSERT, condition))

    def when_not_matched_by_source_delete(self, condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(When.NOT_MATCHED_BY_SOURCE, Then.DELETE, condition))

    def when_not_matched_by_source_update(self, set: Mapping[str, Any], condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(When.NOT_MATCHED_BY_SOURCE, Then.UPDATE, condition, _given(set, "when_not_matched_by_source_update")))

    def execute(self) -> Commit:
        return self._run(self._request)

    def _with(self, clause: Clause) -> MergeBuilder:
        return MergeBuilder(replace(self._request, clauses=(*self._request.clauses, clause)), self._run)


def _given(values: Mapping[str, Any], call: str) -> Mapping[str, Any]:
    if not values:
        raise InvalidOption(f"{call} was given no column; name at least one, as in {call}({{'fare': 's.fare'}}).")
    return dict(values)
