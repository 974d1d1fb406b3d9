"""What data files say of themselves: their physical schemas, and the values their partitions stand for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform

from lakewright.errors import CorruptFile
from lakewright.format.data_file import DataFile
from lakewright.format.metadata import Metadata
from lakewright.format.storage import local_path
from lakewright.read.layout import NAME_MAPPING, Layout, layout_of_file


def name_mapping(metadata: Metadata) -> NameMapping | None:
    text = metadata.properties.get(NAME_MAPPING)
    return parse_mapping_from_json(text) if text else None


def layout_in(file: DataFile, physical: pa.Schema, schema: Schema, mapping: NameMapping | None) -> Layout:
    layout = layout_of_file(physical, schema, mapping)
    if layout is None:
        raise CorruptFile(f"Data file {file.file_path} has no field ids and the table has no {NAME_MAPPING}: set that property to say which column is which.")
    return layout


def file_schema(io: FileIO, path: str) -> pa.Schema:
    """The schema in a file's footer, with field ids."""
    try:
        local = local_path(path)
        if local is not None:
            return pq.read_schema(local)
        with io.new_input(path).open() as stream:
            return pq.read_schema(stream)
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, pa.ArrowException) as error:
        raise CorruptFile(f"Data file {path} cannot be read: {error}") from error


def missing(path: str) -> CorruptFile:
    return CorruptFile(f"Data file {path} is missing. Restore it, or roll the table back to a snapshot that does not use it.")


def identity_value(metadata: Metadata, file: DataFile, source_id: int) -> Any:
    """What a file's partition says of a column, where the column itself is the partition."""
    for at, f in enumerate(metadata.specs[file.spec_id].fields):
        if f.source_id == source_id and isinstance(f.transform, IdentityTransform):
            return file.partition[at]
    return None
