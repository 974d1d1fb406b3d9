"""A write through the Data Source as every step of it knows it, whichever process the step runs in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyspark import TaskContext
from pyspark import __version__ as spark_version
from pyspark.sql.types import StructType

from lakewright.commit.runs import RunRecord
from lakewright.commit.store import TableState
from lakewright.errors import UnsupportedOperation
from lakewright.format.metadata import Metadata
from lakewright.options import DISTRIBUTION, REGISTRY, Options, resolve
from lakewright.plan.filters import Filter, parse_where
from lakewright.plan.keys import is_keyed
from lakewright.plan.planner import plan_write
from lakewright.plan.request import WriteMode
from lakewright.plan.schema import Reconciled, reconcile
from lakewright.plan.write_plan import WritePlan
from lakewright.session import PARTITION_OVERWRITE_MODE, TIME_ZONE
from lakewright.source.options import SourceWrite

APPLICATION = "spark.app.id"


@dataclass(frozen=True)
class SourceRun:
    """It pickles. `rows` is the DataFrame's schema, `state` the table as it was at the start, without its history.

    `session` arguments are the settings of the session as tasks saw them.
    """

    request: SourceWrite
    state: TableState
    rows: StructType
    record: RunRecord

    def mode(self, session: Mapping[str, str]) -> WriteMode:
        """The option decides, then the session; a filter leaves no choice."""
        if not self.request.overwrite:
            return WriteMode.APPEND
        asked = self.request.dynamic
        dynamic = session.get(PARTITION_OVERWRITE_MODE, "static").lower() == "dynamic" if asked is None else asked
        return WriteMode.OVERWRITE_PARTITIONS if dynamic and self.request.where is None else WriteMode.OVERWRITE

    def options(self, session: Mapping[str, str]) -> Options:
        return resolve(self.request.options, session, self.state.metadata.properties)

    def reconciled(self, options: Options) -> Reconciled:
        metadata = self.state.metadata
        return reconcile(self.rows, metadata.schema, options, self.state.name, last_column_id=metadata.last_column_id)

    def where(self, session: Mapping[str, str]) -> Filter | None:
        """The filter of the overwrite. Rows are checked against it with Arrow, so it must say there exactly what it says in SQL."""
        if self.request.where is None:
            return None
        parsed = parse_where(self.request.where, self.state.metadata.schema, self.state.name, session_tz=session.get(TIME_ZONE), deterministic=True)
        if not parsed.exact:
            raise UnsupportedOperation(
                f'overwrite-filter ({self.request.where}) of {self.state.name} needs Spark to evaluate; format("lakewright") takes comparisons of columns '
                f"with values, IN, IS NULL, LIKE 'a%', AND, OR and NOT. Use t.overwrite(df, where={self.request.where!r}).",
                table=self.state.name,
            )
        return parsed

    def plan(self, options: Options, reconciled: Reconciled) -> WritePlan:
        require_no_shuffle(options, self.state)
        plan = plan_write(
            self.state,
            self.state.metadata,
            reconciled.schema,
            options,
            engine="arrow",
            run_id=self.record.run_id,
            data_prefix=self.record.prefix,
            branch=self.request.branch,
            io_properties=self.state.io.properties,
        )
        return replace(plan, distribution="none", sort_order=UNSORTED_SORT_ORDER)

    def snapshot_properties(self, session: Mapping[str, str]) -> dict[str, str]:
        application = {APPLICATION: session[APPLICATION]} if APPLICATION in session else {}
        return {"engine-name": "lakewright", "engine-version": f"spark {spark_version}", **application, **self.request.snapshot_properties}


def seen_settings(context: TaskContext) -> dict[str, str]:
    """The session's settings that matter to a write, as a task sees them."""
    keys = [option.session_key for option in REGISTRY.values()] + [PARTITION_OVERWRITE_MODE, TIME_ZONE, APPLICATION]
    seen = {key: context.getLocalProperty(key) for key in keys}
    return {key: value for key, value in seen.items() if value is not None}


def without_history(state: TableState, branch: str) -> TableState:
    """The state as tasks need it: of a long history only the branch's head, so that each task is not sent all of it.

    It has no metadata location, so that no commit can take it for a version of the table.
    """
    head = state.metadata.head(branch)
    kept = {
        "snapshots": [head.raw] if head else [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {branch: state.metadata.refs[branch]} if head else {},
    }
    return replace(state, metadata=Metadata({**state.metadata.raw, **kept}), metadata_location="")


def require_no_shuffle(options: Options, state: TableState) -> None:
    """This entry cannot move rows between tasks, so it cannot sort them over files either."""
    asked = options[DISTRIBUTION]
    if asked == "range" or (asked is None and state.metadata.sort_order.fields):
        why = "asks for distribution-mode range" if asked == "range" else "has a sort order"
        raise UnsupportedOperation(
            f'Table {state.name} {why}, and format("lakewright") has no place for the shuffle. Use t.append(df) or lake.write(df, {state.name!r}); '
            'or .option("distribution-mode", "none") to write files unsorted.',
            table=state.name,
        )


def require_no_key(state: TableState) -> None:
    if state.metadata.schema.identifier_field_ids or is_keyed(state.metadata.properties):
        raise UnsupportedOperation(
            f'Table {state.name} has a key, and format("lakewright") cannot look keys up. Use t.upsert(df), t.insert(df) or lake.write(df, {state.name!r}).',
            table=state.name,
        )
