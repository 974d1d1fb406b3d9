"""One form for rows of every engine, so that equality means the same values in the same columns, whatever their order."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


def canonical(rows: pa.Table) -> list[str]:
    """Each row as JSON text with its column names, sorted."""
    return sorted(json.dumps(plain(row), ensure_ascii=False) for row in rows.to_pylist())


def plain(value: Any) -> Any:
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return "NaN" if math.isnan(value) else repr(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list():
            items = [plain(item) for item in value]
            is_map = bool(value) and isinstance(value[0], tuple)
            return sorted(items, key=json.dumps) if is_map else items
        case tuple():
            return [plain(item) for item in value]
    raise TypeError(f"An engine returned a {type(value).__name__}, which has no canonical form.")
