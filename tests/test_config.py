from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import pytest

from lakewright.catalogs import open_catalog
from lakewright.config import LakeConfig, redact, resolve_lake
from lakewright.errors import CatalogUnavailable, ConfigurationError, CorruptFile, PermissionRefused, UnknownOption

TOML = """
[lakes.prod]
location = "s3://bucket/wh"

[lakes.prod.catalog]
type = "rest"
uri = "https://catalog.example/api"
token = "${PROD_TOKEN}"
s3.endpoint = "http://store:9000"
s3.path-style-access = true

[lakes.local]
location = "data/lake"

[lakes.served]
catalog = {type = "rest", uri = "http://rest:8181"}
"""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEWRIGHT_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_folder_is_an_embedded_lake(workspace: Path) -> None:
    config = resolve_lake("lake")
    assert config.location == f"file://{workspace}/lake"
    assert config.catalog_properties == {"type": "sql", "uri": f"sqlite:///{workspace}/lake/catalog.db", "warehouse": f"file://{workspace}/lake"}
    assert config.embedded


@pytest.mark.parametrize("given", ["{}/a lake", "file://{}/a lake", "file:{}/a lake"])
def test_one_folder_however_it_is_written(workspace: Path, given: str) -> None:
    assert resolve_lake(given.format(workspace)) == resolve_lake(workspace / "a lake")


def test_a_location_with_a_catalog() -> None:
    config = resolve_lake("s3://bucket/wh/", catalog={"type": "rest", "uri": "http://rest:8181", "s3": {"endpoint": "http://store"}})
    assert config.location == "s3://bucket/wh"
    assert config.catalog_properties == {"type": "rest", "uri": "http://rest:8181", "s3.endpoint": "http://store", "warehouse": "s3://bucket/wh"}
    assert not config.embedded


def test_a_configured_name_goes_before_a_folder(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "lakewright.toml").write_text(TOML)
    (workspace / "prod").mkdir()
    monkeypatch.setenv("PROD_TOKEN", "t0ps3cret")
    config = resolve_lake("prod")
    assert config.location == "s3://bucket/wh"
    assert config.catalog_properties["token"] == "t0ps3cret"
    assert config.catalog_properties["s3.endpoint"] == "http://store:9000"
    assert config.catalog_properties["s3.path-style-access"] == "true"


def test_a_path_is_never_a_name(workspace: Path) -> None:
    (workspace / "lakewright.toml").write_text(TOML)
    assert resolve_lake("./local").location == f"file://{workspace}/local"


def test_locations_in_the_file_start_at_the_file(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "conf").mkdir()
    (workspace / "conf" / "lakes.toml").write_text(TOML)
    monkeypatch.setenv("LAKEWRIGHT_CONFIG", "conf/lakes.toml")
    assert resolve_lake("local").location == f"file://{workspace}/conf/data/lake"


def test_the_users_own_file_is_found(workspace: Path) -> None:
    (workspace / "home" / "lakewright").mkdir(parents=True)
    (workspace / "home" / "lakewright" / "lakewright.toml").write_text(TOML)
    assert resolve_lake("served").catalog_properties == {"type": "rest", "uri": "http://rest:8181"}


def test_the_environment_alone_and_before_the_file(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWRIGHT_LAKE_STAGE_EU_LOCATION", "s3://stage/wh")
    monkeypatch.setenv("LAKEWRIGHT_LAKE_STAGE_EU_CATALOG_TYPE", "sql")
    monkeypatch.setenv("LAKEWRIGHT_LAKE_STAGE_EU_CATALOG_URI", "postgresql+psycopg2://u:p@db/lake")
    monkeypatch.setenv("LAKEWRIGHT_LAKE_STAGE_EU_CATALOG_S3__ACCESS_KEY_ID", "AKIA")
    config = resolve_lake("stage-eu")
    assert config.location == "s3://stage/wh"
    assert config.catalog_properties["s3.access-key-id"] == "AKIA"

    (workspace / "lakewright.toml").write_text(TOML)
    monkeypatch.setenv("LAKEWRIGHT_LAKE_SERVED_CATALOG_URI", "http://other:8181")
    assert resolve_lake("served").catalog_properties["uri"] == "http://other:8181"


def test_a_given_catalog_goes_before_the_configured_one(workspace: Path) -> None:
    (workspace / "lakewright.toml").write_text(TOML)
    assert resolve_lake("served", catalog={"uri": "http://mine:8181"}).catalog_properties == {"type": "rest", "uri": "http://mine:8181"}


def test_a_missing_variable_is_named(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "lakewright.toml").write_text(TOML)
    monkeypatch.delenv("PROD_TOKEN", raising=False)
    with pytest.raises(ConfigurationError, match=r"lakes\.prod\.catalog\.token .* PROD_TOKEN"):
        resolve_lake("prod")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[lakes.prod", "not valid TOML"),
        ('lakes = "prod"', "should be tables"),
        ('[lakes]\nprod = "x"', "should be a table"),
        ("[lakes.prod]", "neither location nor catalog"),
        ('[lakes.prod]\ncatalog = "rest"', "should be a table"),
    ],
)
def test_a_broken_file_is_named(workspace: Path, content: str, message: str) -> None:
    (workspace / "lakewright.toml").write_text(content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        resolve_lake("prod")
    assert "lakewright.toml" in str(caught.value)


def test_an_unknown_key_suggests_the_near_one(workspace: Path) -> None:
    (workspace / "lakewright.toml").write_text('[lakes.prod]\nlocaton = "x"')
    with pytest.raises(UnknownOption, match="Did you mean location"):
        resolve_lake("prod")


def test_a_named_file_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWRIGHT_CONFIG", "nowhere.toml")
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml"):
        resolve_lake("prod")


@pytest.mark.parametrize(("kind", "hint"), [("rst", "Did you mean rest"), ("postgresql", 'of type "sql"'), ("zzz", "Types are")])
def test_an_unknown_catalog_type_gets_a_hint(kind: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        resolve_lake("s3://b/w", catalog={"type": kind})


@pytest.mark.parametrize(("given", "catalog"), [("", None), ("s3://bucket/wh", None), ("lake", {"warehouse": "x"})])
def test_what_cannot_be_a_lake_is_refused(given: str, catalog: dict[str, str] | None) -> None:
    with pytest.raises(ConfigurationError):
        resolve_lake(given, catalog)


def test_secrets_are_not_shown() -> None:
    shown = redact({"uri": "postgresql://me:pw@db/x", "s3.secret-access-key": "abc", "token": "t", "region": "eu", "nested": {"password": "p"}})
    assert shown == {"uri": "postgresql://***@db/x", "s3.secret-access-key": "***", "token": "***", "region": "eu", "nested": {"password": "***"}}
    config = LakeConfig("s3://b", {"uri": "postgresql://me:pw@db/x", "credential": "abc"})
    assert "pw" not in repr(config) and "abc" not in repr(config)
    assert pickle.loads(pickle.dumps(config)) == config


def test_an_embedded_catalog_is_made_on_first_use(workspace: Path) -> None:
    catalog = open_catalog(resolve_lake("deep/lake"))
    catalog.create_namespace("nyc")
    assert open_catalog(resolve_lake("deep/lake"), create=False).list_namespaces() == [("nyc",)]


def test_a_lake_that_must_be_there_is_not_made(workspace: Path) -> None:
    with pytest.raises(ConfigurationError, match="no lake at"):
        open_catalog(resolve_lake("lkae"), create=False)
    assert not (workspace / "lkae").exists()


def test_a_folder_that_cannot_be_written_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(PermissionRefused, match="Read-only file system"):
        open_catalog(resolve_lake("lake"))


def test_a_file_in_place_of_the_folder_is_refused(workspace: Path) -> None:
    (workspace / "lake").write_text("not a folder")
    with pytest.raises(ConfigurationError, match="No lake can be made"):
        open_catalog(resolve_lake("lake"))


def test_a_file_that_is_no_database_is_named(workspace: Path) -> None:
    (workspace / "lake").mkdir()
    (workspace / "lake" / "catalog.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(CorruptFile, match=r"catalog\.db"):
        open_catalog(resolve_lake("lake"))


def test_a_catalog_that_does_not_answer(workspace: Path) -> None:
    with pytest.raises(CatalogUnavailable, match=r"127\.0\.0\.1:9"):
        open_catalog(resolve_lake("s3://b/w", catalog={"type": "rest", "uri": "http://127.0.0.1:9"}))


def _open(folder: str) -> int:
    return len(open_catalog(resolve_lake(folder)).list_namespaces())


def test_many_processes_make_one_catalog(workspace: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(6) as pool:
        assert pool.map(_open, [str(workspace / "shared")] * 12) == [0] * 12
