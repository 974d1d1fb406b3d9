"""A request and a table into a plan: with which schema, spec, order, engine and distribution the rows are written."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from lakewright.commit.store import TableState
from lakewright.errors import InvalidOption, UnsupportedFormat
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.options import FORMAT, OUTPUT_SPEC_ID, Options
from lakewright.plan.blooms import blooms
from lakewright.plan.distribution import choose_distribution
from lakewright.plan.write_plan import WritePlan


def plan_write(
    state: TableState,
    metadata: Metadata,
    schema: Schema,
    options: Options,
    *,
    engine: str,
    run_id: str,
    data_prefix: str,
    branch: str,
    io_properties: Mapping[str, str],
    arranged: SortOrder | None = None,
) -> WritePlan:
    """The plan of one write; `metadata` is the table as the transaction has changed it so far, `schema` what rows are written with."""
    if options[FORMAT].lower() != "parquet":
        raise UnsupportedFormat(
            f"{state.name} asks for {options[FORMAT]} files (write.format.default); Lakewright writes parquet. Set the property to parquet.",
            table=state.name,
        )
    spec = output_spec(metadata, options, state.name)
    order = metadata.sort_order if arranged is None else arranged
    return WritePlan(
        table=state.name,
        run_id=run_id,
        data_prefix=data_prefix,
        schema=schema,
        spec=spec,
        sort_order=order,
        engine=engine,
        distribution=choose_distribution(spec, order, options),
        options=options,
        io_properties=io_properties,
        bytes_per_row=bytes_per_row(metadata.head_if_any(branch)),
        blooms=blooms(options.properties, schema, state.name),
    )


def output_spec(metadata: Metadata, options: Options, table: str) -> PartitionSpec:
    chosen = options[OUTPUT_SPEC_ID]
    if chosen is None:
        return metadata.spec
    if chosen not in metadata.specs:
        known = ", ".join(str(spec_id) for spec_id in sorted(metadata.specs))
        raise InvalidOption(f"output-spec-id is {chosen}, and {table} has the partition specs {known}.", table=table)
    return metadata.specs[chosen]


def bytes_per_row(head: Snapshot | None) -> float | None:
    """What a row of this table takes on disk, from the totals of the newest snapshot."""
    if head is None:
        return None
    rows, size = int(head.summary.get("total-records", "0")), int(head.summary.get("total-files-size", "0"))
    return size / rows if rows and size else None
