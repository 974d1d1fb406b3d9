"""What tests of builds share: rows, configurations, and a snapshot's content read without the reader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewright.shards.backends import backend_named
from lakewright.shards.config import ShardConfig
from lakewright.shards.manifest import Manifest, read_manifest
from lakewright.shards.publish import required
from lakewright.shards.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Place:
    """A url to build at."""

    url: str

    def config(self, **options: Any) -> ShardConfig:
        given: dict[str, Any] = {"url": self.url, "key": "id", "value": "payload"}
        if not {"num_shards", "max_keys_per_shard", "cel"} & options.keys():
            given["num_shards"] = 4
        return ShardConfig(**{**given, **options})

    def manifest(self) -> Manifest:
        store = open_store(self.url)
        return read_manifest(store, required(store).manifest_ref)

    def content(self) -> dict[Any, bytes]:
        """Every key with its value, each from the shard its entry names."""
        found: dict[Any, bytes] = {}
        for pairs in self.by_shard().values():
            assert not found.keys() & pairs.keys()
            found.update(pairs)
        return found

    def by_shard(self) -> dict[int, dict[Any, bytes]]:
        manifest = self.manifest()
        return {entry.shard_id: dict(self._scanned(manifest, entry.path)) for entry in manifest.shards if entry.path is not None}

    def _scanned(self, manifest: Manifest, path: str) -> list[tuple[Any, bytes]]:
        shard = backend_named(manifest.backend).open(str(Path(self.url) / path), manifest.key_type)
        try:
            return list(shard.scan(None, None, None))
        finally:
            shard.close()

    def files(self) -> set[str]:
        """Files of shards, whoever wrote them, folders not yet finished included."""
        return {str(path.relative_to(self.url)) for path in (Path(self.url) / "shards").rglob("*") if path.is_file()}

    def referenced(self) -> set[str]:
        return {f"{entry.path}/{file.name}" for entry in self.manifest().shards for file in entry.files}


def people(spark: SparkSession, count: int = 1000) -> DataFrame:
    """id, region, name, payload; the payload of a key can be told from the key."""
    return spark.range(count).selectExpr(
        "id", "element_at(array('eu', 'us', 'asia'), cast(id % 3 as int) + 1) as region", "concat('name-', id) as name", "cast(concat('payload-', id) as binary) as payload"
    )


def payloads(count: int = 1000) -> dict[int, bytes]:
    return {key: f"payload-{key}".encode() for key in range(count)}
