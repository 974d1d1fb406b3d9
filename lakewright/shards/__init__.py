"""Sharded key-value snapshots: built with Spark, read without it.

Importing this touches neither PySpark nor Java; writing does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakewright.shards import routing
from lakewright.shards.store import open_store

if TYPE_CHECKING:
    from lakewright.shards.async_reader import AsyncShardReader, open_async
    from lakewright.shards.build import write
    from lakewright.shards.config import BuildResult, ShardConfig
    from lakewright.shards.metrics import PrometheusMetrics
    from lakewright.shards.publish import Pointer
    from lakewright.shards.reader import ShardReader
    from lakewright.shards.reader import open_reader as open  # noqa: A004
    from lakewright.shards.removal import CleanupResult
    from lakewright.shards.serve import ShardServer
    from lakewright.shards.single import write_single
    from lakewright.shards.versions import Verification, Version

__all__ = [
    "AsyncShardReader",
    "BuildResult",
    "PrometheusMetrics",
    "ShardConfig",
    "ShardReader",
    "ShardServer",
    "cleanup",
    "history",
    "open",
    "open_async",
    "rollback",
    "routing",
    "verify",
    "write",
    "write_single",
]

_HOMES = {
    "AsyncShardReader": "async_reader",
    "BuildResult": "config",
    "PrometheusMetrics": "metrics",
    "ShardConfig": "config",
    "ShardReader": "reader",
    "ShardServer": "serve",
    "open": "reader",
    "open_async": "async_reader",
    "write": "build",
    "write_single": "single",
}


def history(url: str, *, storage: Mapping[str, str] | None = None) -> list[Version]:
    """The versions at a place, oldest first."""
    from lakewright.shards.versions import versions

    return versions(open_store(url, storage))


def rollback(url: str, version: int | None = None, *, storage: Mapping[str, str] | None = None) -> Pointer:
    """Make an older version current again; the one before the current unless named."""
    from lakewright.shards.versions import rollback

    return rollback(open_store(url, storage), version)


def verify(url: str, version: int | None = None, *, storage: Mapping[str, str] | None = None) -> Verification:
    """Read a version whole and check it; the current one unless named."""
    from lakewright.shards.versions import verify

    return verify(open_store(url, storage), version)


def cleanup(
    url: str,
    *,
    keep: int = 10,
    older_than: timedelta | None = None,
    dry_run: bool = True,
    run_registry_prefix: str = "runs",
    storage: Mapping[str, str] | None = None,
) -> CleanupResult:
    """Remove old versions and what dead builds left; only says so unless `dry_run` is off."""
    from lakewright.shards.removal import cleanup

    return cleanup(open_store(url, storage), keep=keep, older_than=older_than, dry_run=dry_run, run_registry_prefix=run_registry_prefix)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lakewright.shards' has no attribute {name!r}")
    return getattr(import_module(f"lakewright.shards.{_HOMES[name]}"), "open_reader" if name == "open" else name)
