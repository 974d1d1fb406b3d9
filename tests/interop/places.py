"""Where a lake can be: each place is a lake for Lakewright, and the same catalog under the same name for the Iceberg Spark runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lakewright as lw
from tests.interop.services.hive import HiveMetastore
from tests.interop.services.postgres import Postgres
from tests.interop.services.rest import RestCatalog
from tests.interop.services.s3 import S3


@dataclass(frozen=True)
class Place:
    name: str
    lake: Any
    peer_catalog: Mapping[str, str] = field(repr=False)


def local(spark: Any, folder: Path) -> Place:
    """A folder with its SQLite catalog, whose name must be that of the catalog in the database."""
    jdbc = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": folder.as_uri()}
    return Place("lakewright", lw.connect(str(folder), spark=spark), jdbc)


def postgres(spark: Any, folder: Path, server: Postgres) -> Place:
    catalog = {"name": "postgres", "type": "sql", "uri": server.sqlalchemy_uri}
    jdbc = {"type": "jdbc", "uri": server.jdbc_uri, "jdbc.user": "postgres", "warehouse": folder.as_uri()}
    return Place("postgres", lw.connect(str(folder), spark=spark, catalog=catalog), jdbc)


def rest(spark: Any, server: RestCatalog) -> Place:
    catalog = {"name": "rest", "type": "rest", "uri": server.uri}
    return Place("rest", lw.connect(server.warehouse, spark=spark, catalog=catalog), {"type": "rest", "uri": server.uri})


def hive(spark: Any, folder: Path, metastore: HiveMetastore) -> Place:
    catalog = {"name": "hive", "type": "hive", "uri": metastore.uri, "hive.hive2-compatible": "true"}
    return Place("hive", lw.connect(str(folder), spark=spark, catalog=catalog), {"type": "hive", "uri": metastore.uri, "warehouse": folder.as_uri()})


def s3(spark: Any, folder: Path, server: S3, name: str) -> Place:
    warehouse = f"s3://{server.bucket}/{name}"
    catalog = {"name": name, "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", **server.client_properties}
    jdbc = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        **server.client_properties,
    }
    return Place(name, lw.connect(warehouse, spark=spark, catalog=catalog), jdbc)
