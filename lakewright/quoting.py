"""Names as Spark SQL takes them, whatever is in them. Without other imports, since Python workers that need nothing else use it too."""

from __future__ import annotations


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
