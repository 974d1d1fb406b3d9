"""The REST catalog server that the Iceberg project tests its own clients with, over a SQLite database."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.services.jars import hadoop_client, jar_set
from tests.interop.services.process import free_port, serving


@dataclass(frozen=True)
class RestCatalog:
    uri: str
    warehouse: str


@contextmanager
def rest_catalog(folder: Path) -> Iterator[RestCatalog]:
    port = free_port()
    warehouse = folder / "rest-warehouse"
    warehouse.mkdir()
    classpath = ":".join(str(jar) for jar in [*jar_set("rest"), *hadoop_client()])
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": warehouse.as_uri(),
        "CATALOG_URI": f"jdbc:sqlite:{folder}/rest.db",
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
    }
    command = ["java", "-Xmx512m", "-cp", classpath, "org.apache.iceberg.rest.RESTCatalogServer"]
    uri = f"http://127.0.0.1:{port}"
    with serving("Iceberg's REST catalog server", command, folder / "rest.log", lambda: _answers(uri), settings):
        yield RestCatalog(uri, warehouse.as_uri())


def _answers(uri: str) -> bool:
    try:
        urllib.request.urlopen(f"{uri}/v1/config", timeout=5).close()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
    return True
