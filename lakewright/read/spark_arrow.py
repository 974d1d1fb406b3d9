"""Arrow types as Spark takes them from a Python worker, with instants in UTC."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType

# PySpark 4.1 takes a switch where later ones take the name of a zone.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {"timestamp_utc": True}


def arrow_type(kind: DataType) -> pa.DataType:
    return to_arrow_type(kind, **_IN_UTC)


def arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, **_IN_UTC)
