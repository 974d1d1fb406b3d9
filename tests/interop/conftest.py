"""Services of the suite, each started once on a free port. One that does not start fails every test that needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from lakewright.session import local_session
from tests.interop import places
from tests.interop.lineage import by_id
from tests.interop.peer import Peer, peer_process
from tests.interop.services.hive import HiveMetastore, hive_metastore
from tests.interop.services.jars import jar_set
from tests.interop.services.postgres import Postgres, postgres_server
from tests.interop.services.rest import RestCatalog, rest_catalog
from tests.interop.services.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY, s3_server
from tests.interop.statements import ALL, COPY_ON_WRITE

Folders = pytest.TempPathFactory


@pytest.fixture(scope="session")
def s3(tmp_path_factory: Folders) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: Folders) -> Iterator[Postgres]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def hive(tmp_path_factory: Folders) -> Iterator[HiveMetastore]:
    with hive_metastore(tmp_path_factory.mktemp("hive")) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def rest(tmp_path_factory: Folders) -> Iterator[RestCatalog]:
    with rest_catalog(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture(scope="session")
def peer(tmp_path_factory: Folders) -> Iterator[Peer]:
    with peer_process(tmp_path_factory.mktemp("peer")) as process:
        yield process


@pytest.fixture(scope="session")
def spark(s3: S3) -> Iterator[Any]:
    """The suite's session: hadoop-aws is on its class path, but nothing says so until a session sets `spark.hadoop.fs.s3a.impl`."""
    settings = {
        "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    jars = ":".join(str(jar) for jar in jar_set("s3"))
    arguments = [f"--driver-class-path {jars}", *(f"--conf {key}={value}" for key, value in settings.items())]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*arguments, "pyspark-shell"])
    session = local_session("lakewright-interop")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def place_of(request: pytest.FixtureRequest, spark: Any, peer: Peer, tmp_path_factory: Folders) -> Callable[[str], places.Place]:
    """A place by name, made at first use and then shared."""
    service = request.getfixturevalue

    def s3native() -> places.Place:
        native = spark.newSession()
        native.conf.set("spark.hadoop.fs.s3a.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
        return places.s3(native, tmp_path_factory.mktemp("lake"), service("s3"), "s3native")

    makers: dict[str, Callable[[], places.Place]] = {
        "local": lambda: places.local(spark, tmp_path_factory.mktemp("lake")),
        "postgres": lambda: places.postgres(spark, tmp_path_factory.mktemp("lake"), service("postgres")),
        "rest": lambda: places.rest(spark, service("rest")),
        "hive": lambda: places.hive(spark, tmp_path_factory.mktemp("lake"), service("hive")),
        "s3": lambda: places.s3(spark, tmp_path_factory.mktemp("lake"), service("s3"), "s3"),
        "s3native": s3native,
    }

    @cache
    def make(name: str) -> places.Place:
        place = makers[name]()
        # Without its cache the peer sees each commit of ours at once.
        peer.catalog(place.name, {**place.peer_catalog, "cache-enabled": "false"})
        return place

    return make


@pytest.fixture(scope="session")
def told(place_of: Callable[[str], places.Place], peer: Peer) -> Callable[[str], list[dict[int, Any]]]:
    """The rows of a story, by id, after each of its statements, as the Iceberg runtime alone makes them."""
    place = place_of("local")

    @cache
    def tell(name: str) -> list[dict[int, Any]]:
        story = next(story for story in ALL if story.name == name)
        table = f"{place.name}.told.{name}"
        story.theirs(peer, table, 2, COPY_ON_WRITE)
        rows = []
        for statement in story.statements:
            statement.theirs(peer, table)
            rows.append(by_id(peer.sql(f"SELECT * FROM {table}")))
        return rows

    return tell
