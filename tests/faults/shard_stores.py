"""A local store that fails on purpose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lakewright.errors import ShardStoreError
from lakewright.shards.publish import CURRENT
from lakewright.shards.store import LocalStore, Stored


class FailingStore(LocalStore):
    """`lost`: so many conditional puts of a path fail before they are done. `unanswered`: so many are done, and the answer gets lost. `deaf`: whether gets of the pointer fail, too."""

    def __init__(self, folder: Path | str, **failures: dict[str, int]) -> None:
        super().__init__(str(folder), {})
        self.lost, self.unanswered = dict(failures.get("lost", {})), dict(failures.get("unanswered", {}))
        self.deaf = False
        self.puts = 0
        self.before_put: Callable[[], None] | None = None

    def get(self, path: str) -> Stored:
        if self.deaf and path == CURRENT:
            raise ShardStoreError("The store does not answer.")
        return super().get(path)

    def put_if(self, path: str, data: bytes, expected: str | None) -> str:
        kind = "manifest" if path.startswith("manifests/") else path
        self.puts += 1
        if self.before_put is not None and kind == CURRENT:
            act, self.before_put = self.before_put, None
            act()
        if self.lost.get(kind, 0) > 0:
            self.lost[kind] -= 1
            raise ShardStoreError("The store does not answer.")
        version = super().put_if(path, data, expected)
        if self.unanswered.get(kind, 0) > 0:
            self.unanswered[kind] -= 1
            raise ShardStoreError("The connection broke before the answer came.")
        return version

    def delete(self, path: str) -> None:
        if self.lost.get("delete", 0) > 0:
            self.lost["delete"] -= 1
            raise ShardStoreError("The store refuses to delete.")
        super().delete(path)
