"""Folders of partitions, for people to read: no reader takes a value from a path, manifests hold them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, Transform, YearTransform
from pyiceberg.types import DateType, IcebergType, TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType, TimeType

_NULL = "null"
_MARK = "!"  # never comes out of `quote`
_LONGEST_NAME = 80
_LONGEST_VALUE = 110
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def partition_path(spec: PartitionSpec, schema: Schema, values: Sequence[Any]) -> str:
    """`region=eu/day=2020-01-01` for a partition tuple in internal form; '' for an unpartitioned spec.

    Different tuples have different paths. Text is percent-escaped, all but letters, digits and `_.-~`. Null is `null`, the
    text "null" is `%6Eull`, and the empty text is nothing (`region=`). A name or value too long for a folder is cut and gets
    `!` and a hash, so that a segment stays under 200 bytes. A leading `_` or `.`, which Spark takes for hidden, is escaped.
    """
    segments = []
    for field, value in zip(spec.fields, values, strict=True):
        text = _NULL if value is None else _escape(_readable(field.transform, schema.find_type(field.source_id), value))
        segments.append(f"{_shorten(_unhide(quote(field.name, safe='')), _LONGEST_NAME)}={_shorten(text, _LONGEST_VALUE)}")
    return "/".join(segments)


def _escape(text: str) -> str:
    return "%6Eull" if text == _NULL else quote(text, safe="")


def _unhide(name: str) -> str:
    return f"%{ord(name[0]):02X}{name[1:]}" if name[:1] in ("_", ".") else name


def _shorten(escaped: str, longest: int) -> str:
    if len(escaped) <= longest:
        return escaped
    ending = _MARK + hashlib.sha256(escaped.encode()).hexdigest()[:32]
    cut = longest - len(ending)
    escape = escaped.find("%", cut - 2, cut)
    return escaped[: cut if escape < 0 else escape] + ending


def _readable(transform: Transform[Any, Any], source_type: IcebergType, value: Any) -> str:
    if isinstance(transform, YearTransform):
        return f"{1970 + value:04d}"
    if isinstance(transform, MonthTransform):
        return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
    if isinstance(transform, DayTransform):
        return _day(value)
    if isinstance(transform, HourTransform):
        return f"{_day(value // 24)}-{value % 24:02d}"
    return _readable_value(transform.result_type(source_type), value)


def _readable_value(kind: IcebergType, value: Any) -> str:
    if isinstance(kind, DateType):
        return _day(value)
    if isinstance(kind, TimeType):
        return _clock(value, 6)
    if isinstance(kind, (TimestampType, TimestamptzType)):
        return _timestamp(value, 6) + ("+00:00" if isinstance(kind, TimestamptzType) else "")
    if isinstance(kind, (TimestampNanoType, TimestamptzNanoType)):
        return _timestamp(value, 9) + ("+00:00" if isinstance(kind, TimestamptzNanoType) else "")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def _day(days: int) -> str:
    """A date, or the number of days where Python's calendar ends."""
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return str(days)


def _clock(units: int, digits: int) -> str:
    seconds, fraction = divmod(units, 10**digits)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{digits}d}" if fraction else text


def _timestamp(units: int, digits: int) -> str:
    days, rest = divmod(units, 86_400 * 10**digits)
    return f"{_day(days)}T{_clock(rest, digits)}"
