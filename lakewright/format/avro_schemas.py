"""Avro schemas of manifests and manifest lists, by the field ids of the Iceberg specification."""

from __future__ import annotations

from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

Avro = dict[str, Any]
FIELD_ID = "field-id"

# Fields of a data file that only pruning by columns looks at.
METRIC_FIELDS = {108: "column_sizes", 109: "value_counts", 110: "null_value_counts", 137: "nan_value_counts", 125: "lower_bounds", 128: "upper_bounds"}


def required(field_id: int, name: str, kind: Any) -> Avro:
    return {"name": name, "type": kind, FIELD_ID: field_id}


def optional(field_id: int, name: str, kind: Any) -> Avro:
    return {"name": name, "type": ["null", kind], "default": None, FIELD_ID: field_id}


def record(name: str, *fields: Avro) -> Avro:
    return {"type": "record", "name": name, "fields": list(fields)}


def int_map(key_id: int, value_id: int, value: str) -> Avro:
    """Avro maps have text keys only, so a map by field id is an array of pairs."""
    pair = record(f"k{key_id}_v{value_id}", required(key_id, "key", "int"), required(value_id, "value", value))
    return {"type": "array", "items": pair, "logicalType": "map"}


def array(element_id: int, items: Any) -> Avro:
    return {"type": "array", "items": items, "element-id": element_id}


def partition_record(spec: PartitionSpec, schema: Schema) -> Avro:
    """The partition tuple, optional also where its source is required.

    Avro lets a name be defined once. A second decimal(9, 2) gets a name of its own; PyIceberg could not read a reference to the first.
    """
    fields = [NestedField(field.field_id, field.name, field.field_type, required=False) for field in spec.partition_type(schema).fields]
    struct = AvroSchemaConversion().iceberg_to_avro(Schema(*fields), "r102")
    assert isinstance(struct, dict)
    defined: set[str] = set()
    for field, source in zip(struct["fields"], fields, strict=True):
        field["name"] = avro_name(source.name)
        if field["name"] != source.name:
            field["iceberg-field-name"] = source.name
        kind = field["type"][1]
        if isinstance(kind, dict) and "name" in kind:
            if kind["name"] in defined:
                kind["name"] = f"{kind['name']}_{field[FIELD_ID]}"
            defined.add(kind["name"])
    return dict(struct)


def avro_name(name: str) -> str:
    """A name Avro allows, as Iceberg makes it. Letters beyond ASCII are none to Avro's own libraries: DuckDB's ends the process over one."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"_x{ord(c):X}" for c in name)
    return f"_{safe}" if safe[:1].isdigit() else safe


def manifest_entry(spec: PartitionSpec, schema: Schema, format_version: int) -> Avro:
    lineage = [optional(142, "first_row_id", "long")] if format_version >= 3 else []
    blob = [optional(144, "content_offset", "long"), optional(145, "content_size_in_bytes", "long")] if format_version >= 3 else []
    data_file = record(
        "r2",
        required(134, "content", "int"),
        required(100, "file_path", "string"),
        required(101, "file_format", "string"),
        required(102, "partition", partition_record(spec, schema)),
        required(103, "record_count", "long"),
        required(104, "file_size_in_bytes", "long"),
        optional(108, "column_sizes", int_map(117, 118, "long")),
        optional(109, "value_counts", int_map(119, 120, "long")),
        optional(110, "null_value_counts", int_map(121, 122, "long")),
        optional(137, "nan_value_counts", int_map(138, 139, "long")),
        optional(125, "lower_bounds", int_map(126, 127, "bytes")),
        optional(128, "upper_bounds", int_map(129, 130, "bytes")),
        optional(131, "key_metadata", "bytes"),
        optional(132, "split_offsets", array(133, "long")),
        optional(135, "equality_ids", array(136, "int")),
        optional(140, "sort_order_id", "int"),
        *lineage,
        optional(143, "referenced_data_file", "string"),
        *blob,
    )
    return record(
        "manifest_entry",
        required(0, "status", "int"),
        optional(1, "snapshot_id", "long"),
        optional(3, "sequence_number", "long"),
        optional(4, "file_sequence_number", "long"),
        required(2, "data_file", data_file),
    )


def manifest_file(format_version: int) -> Avro:
    summary = record(
        "r508",
        required(509, "contains_null", "boolean"),
        optional(518, "contains_nan", "boolean"),
        optional(510, "lower_bound", "bytes"),
        optional(511, "upper_bound", "bytes"),
    )
    lineage = [optional(520, "first_row_id", "long")] if format_version >= 3 else []
    return record(
        "manifest_file",
        required(500, "manifest_path", "string"),
        required(501, "manifest_length", "long"),
        required(502, "partition_spec_id", "int"),
        required(517, "content", "int"),
        required(515, "sequence_number", "long"),
        required(516, "min_sequence_number", "long"),
        required(503, "added_snapshot_id", "long"),
        required(504, "added_files_count", "int"),
        required(505, "existing_files_count", "int"),
        required(506, "deleted_files_count", "int"),
        required(512, "added_rows_count", "long"),
        required(513, "existing_rows_count", "long"),
        required(514, "deleted_rows_count", "long"),
        optional(507, "partitions", array(508, summary)),
        optional(519, "key_metadata", "bytes"),
        *lineage,
    )
