"""Writes that meet no key: the records have each key once, and the table has none of them, or only in what is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakewright.format.metadata import Metadata
from lakewright.keys.definition import Definition
from lakewright.keys.partitions import has_partitions, partition_is_of_key
from lakewright.keys.request import KeyRequest
from lakewright.options import DISTRIBUTION
from lakewright.plan.request import IntoEmpty, WriteMode, WriteRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS, COMBINED, TRUSTED = "lakewright.records", "lakewright.records-combined", "lakewright.trusted"


def counted(given: int, left: int) -> dict[str, str]:
    """How many records came, and how many of them were combined with others of their key."""
    return {RECORDS: str(given), COMBINED: str(given - left)}


def plain(request: KeyRequest, mode: WriteMode, counts: Mapping[str, str], **how: Any) -> WriteRequest:
    return WriteRequest(mode, keys_checked=True, called=request.operation.value, **how, **request.common_with(counts))


def bulk(request: KeyRequest, definition: Definition, rows: DataFrame, metadata: Metadata, counts: Mapping[str, str], **how: Any) -> tuple[WriteRequest, DataFrame]:
    """A bulk insert, and its rows laid out as it asks for."""
    into = None if request.trust else IntoEmpty.PARTITIONS if partition_is_of_key(metadata, definition) and has_partitions(metadata) else IntoEmpty.TABLE
    rows, order, distribution = request.arrange.applied(rows, definition, metadata)
    write = plain(request, WriteMode.APPEND, {**counts, **({TRUSTED: "true"} if request.trust else {})}, into_empty=into, arranged=order, **how)
    return replace(write, options={**write.options, **({DISTRIBUTION.key: distribution} if distribution else {})}), rows
