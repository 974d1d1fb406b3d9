"""Constants of a SQL filter as Spark reads them. What is not surely read alike here and there is no constant (None)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

EPOCH = date(1970, 1, 1)
MICROS = timedelta(microseconds=1)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d:\d\d)?")
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@dataclass(frozen=True)
class Constant:
    """kind: null, boolean, int, decimal, double, string, binary, date (days), timestamp (microseconds UTC) or timestamp_ntz (microseconds)."""

    kind: str
    value: Any


def zone_of(name: str | None) -> tzinfo | None:
    """A Spark session time zone; None when it is not known here."""
    if name is None:
        return None
    offset = re.fullmatch(r"([+-])(\d\d):(\d\d)", name)
    if offset:
        delta = timedelta(hours=int(offset.group(2)), minutes=int(offset.group(3)))
        return timezone(-delta if offset.group(1) == "-" else delta)
    if name in ("UTC", "Z", "Etc/UTC", "GMT"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def constant(node: exp.Expr, zone: tzinfo | None) -> Constant | None:
    match node:
        case exp.Paren():
            return constant(node.this, zone)
        case exp.Null():
            return Constant("null", None)
        case exp.Boolean():
            return Constant("boolean", bool(node.this))
        case exp.Literal():
            return Constant("string", str(node.this)) if node.is_string else _number(str(node.this))
        case exp.Neg():
            inner = constant(node.this, zone)
            return _negated(inner) if inner is not None and inner.kind in ("int", "decimal", "double") else None
        case exp.HexString():
            return Constant("binary", bytes.fromhex(str(node.this))) if re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", str(node.this)) else None
        case exp.Cast():
            inner = constant(node.this, zone)
            return _cast(inner, node.to, zone) if inner is not None else None
        case exp.TsOrDsToDate() if not node.args.get("format"):
            inner = constant(node.this, zone)
            return parse_date(inner.value) if inner is not None and inner.kind == "string" else None
    return None


def _negated(inner: Constant) -> Constant:
    """Minus itself would round a decimal to 28 digits."""
    return Constant(inner.kind, inner.value.copy_negate() if isinstance(inner.value, Decimal) else -inner.value)


def _number(text: str) -> Constant | None:
    try:
        if "e" in text.lower():
            return Constant("double", float(text))
        number = Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    if len(number.as_tuple().digits) > 38:
        return None
    return Constant("int", int(number)) if text.isdigit() else Constant("decimal", number)


def _cast(inner: Constant, to: exp.DataType, zone: tzinfo | None) -> Constant | None:
    target = to.this.name
    if inner.kind == "null":
        return inner
    if target == "DATE":
        return inner if inner.kind == "date" else parse_date(inner.value) if inner.kind == "string" else None
    if target in ("TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMP"):
        return as_timestamp(inner, zone)
    if target == "TIMESTAMPNTZ":
        return as_timestamp_ntz(inner)
    if inner.kind in ("int", "decimal", "double") and target == "DOUBLE":
        return Constant("double", float(inner.value))
    if inner.kind == "int" and target in INTEGERS:
        limit = 1 << (INTEGERS[target] - 1)
        return inner if -limit <= inner.value < limit else None
    if target in ("TEXT", "VARCHAR") and inner.kind == "string" and not to.expressions:
        return inner
    if target == "DECIMAL" and inner.kind in ("int", "decimal", "string") and len(to.expressions) == 2:
        return _decimal(inner, int(to.expressions[0].name), int(to.expressions[1].name))
    return None


def _decimal(inner: Constant, precision: int, scale: int) -> Constant | None:
    try:
        number = Decimal(inner.value)
        with localcontext(prec=80):  # Python keeps 28 digits unless told
            exact = number.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:
        return None
    return Constant("decimal", exact) if exact == number and len(exact.as_tuple().digits) <= precision else None


def parse_date(text: str) -> Constant | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return Constant("date", (date(*(int(g) for g in found.groups())) - EPOCH).days)
    except ValueError:
        return None


def as_timestamp(inner: Constant, zone: tzinfo | None) -> Constant | None:
    """An instant. Wall times before 1970 are left alone in zones with rules, whose old rules differ between time zone databases."""
    if inner.kind == "timestamp":
        return inner
    if inner.kind == "string":
        found = _TIMESTAMP.fullmatch(inner.value)
        if found and found.group(8):
            named = UTC if found.group(8) == "Z" else zone_of(found.group(8))
            local = _wall(inner.value[: -len(found.group(8))])
            return Constant("timestamp", _micros(local.replace(tzinfo=named))) if local and named else None
    naive = as_timestamp_ntz(inner)
    if naive is None or zone is None:
        return None
    local = datetime(1970, 1, 1) + naive.value * MICROS
    if isinstance(zone, ZoneInfo) and local.year < 1971:
        return None
    return Constant("timestamp", _micros(local.replace(tzinfo=zone)))


def as_timestamp_ntz(inner: Constant) -> Constant | None:
    """A wall time without a zone."""
    if inner.kind == "timestamp_ntz":
        return inner
    if inner.kind == "date":
        return Constant("timestamp_ntz", inner.value * 86_400_000_000)
    local = _wall(inner.value) if inner.kind == "string" else None
    return Constant("timestamp_ntz", (local - datetime(1970, 1, 1)) // MICROS) if local else None


def _wall(text: str) -> datetime | None:
    found = _TIMESTAMP.fullmatch(text)
    if found is None or found.group(8):
        return None
    year, month, day, hour, minute, second = (int(g or 0) for g in found.groups()[:6])
    try:
        return datetime(year, month, day, hour, minute, second, int((found.group(7) or "0").ljust(6, "0")))
    except ValueError:
        return None


def _micros(moment: datetime) -> int:
    return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // MICROS
