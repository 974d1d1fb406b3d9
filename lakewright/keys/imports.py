"""What a user's own module gives: `python:<module>:<name>` in a setting."""

from __future__ import annotations

import importlib
from typing import Any

from lakewright.errors import InvalidOption

PYTHON = "python"


def is_own(text: str) -> bool:
    return text.startswith(f"{PYTHON}:")


def imported(text: str, setting: str, table: str) -> Any:
    _, _, path = text.partition(":")
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidOption(f"{setting} of {table} is {text!r}, which cannot be imported: {error}. Write it as python:<module>:<name>.", table=table) from None
