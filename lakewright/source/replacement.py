"""What an overwrite through the Data Source replaces: whole files only, since splitting one takes Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakewright.commit.change import PartitionScope
from lakewright.errors import UnsupportedOperation
from lakewright.format.data_file import DataFile
from lakewright.plan.overwrite import Replacement, WholeFiles, everything, with_their_deletes
from lakewright.plan.request import WriteMode
from lakewright.read.scan import Scan, plan_scan

if TYPE_CHECKING:
    from lakewright.plan.filters import Filter
    from lakewright.source.run import SourceRun


def replacement_of(run: SourceRun, mode: WriteMode, files: list[DataFile], session: Mapping[str, str]) -> Replacement:
    """The whole table, the partitions of the new files, or the files whose every row the filter selects."""
    state, metadata = run.state, run.state.metadata
    head = metadata.head(run.request.branch)
    where = run.where(session)
    if mode is WriteMode.OVERWRITE_PARTITIONS and not files:
        return Replacement()
    if mode is WriteMode.OVERWRITE_PARTITIONS:
        return _partitions(run, files)
    if where is None:
        return everything(state, metadata, head)
    scan = plan_scan(state.io, metadata, head, where, with_metrics=True)
    _require_whole_files(run, scan, where)
    return Replacement(*with_their_deletes(state, metadata, head, scan.files), where.iceberg, None, where)


def _partitions(run: SourceRun, files: list[DataFile]) -> Replacement:
    """The partitions the new files fall into. Rows of files under other specs would have to be split, which takes Spark."""
    state, metadata = run.state, run.state.metadata
    head = metadata.head(run.request.branch)
    scope = PartitionScope(files[0].spec_id, frozenset(file.partition for file in files))
    scan = plan_scan(state.io, metadata, head)
    replaced = tuple(f for f in scan.files if scope.covers(f.data_file))
    foreign = next((f for f in replaced if f.data_file.spec_id != scope.spec_id), None)
    if foreign is not None and metadata.specs[scope.spec_id].fields:
        raise UnsupportedOperation(
            f"File {foreign.data_file.file_path} of {state.name} has the older partition spec {foreign.data_file.spec_id}, so it may hold rows in and outside "
            'the partitions being replaced; format("lakewright") cannot split it. Use t.overwrite_partitions(df).',
            table=state.name,
        )
    return Replacement(*with_their_deletes(state, metadata, head, replaced), partitions=scope)


def _require_whole_files(run: SourceRun, scan: Scan, where: Filter) -> None:
    whole = WholeFiles(where.strict, run.state.metadata)
    partial = next((f for f in scan.files if not whole.match(f.data_file)), None)
    if partial is not None:
        name = run.state.name
        raise UnsupportedOperation(
            f"File {partial.data_file.file_path} of {name} may hold rows in and outside overwrite-filter ({run.request.where}); "
            f'format("lakewright") replaces whole files only. Use t.overwrite(df, where={run.request.where!r}).',
            table=name,
        )
