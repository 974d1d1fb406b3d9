"""Which lake is meant: a name in lakewright.toml or the environment, a folder, or a location with a catalog."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lakewright.errors import ConfigurationError, UnknownOption

CONFIG_FILE = "lakewright.toml"
CONFIG_VARIABLE = "LAKEWRIGHT_CONFIG"
CATALOG_NAME = "lakewright"
CATALOG_TYPES = ("sql", "rest", "hive", "glue", "dynamodb", "bigquery", "in-memory")
LAKE_KEYS = ("location", "catalog")

_SECRET_KEY = re.compile(r"secret|password|passwd|token|credential|key|private|auth|connection-string", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_REFERENCE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z][\w-]*")
REDACTED = "***"


@dataclass(frozen=True, repr=False)
class LakeConfig:
    """Where a lake is and how its catalog is reached. `location` is "" where only the catalog knows."""

    location: str
    catalog_properties: Mapping[str, str] = field(default_factory=dict)
    name: str = CATALOG_NAME
    folder: Path | None = None

    @property
    def embedded(self) -> bool:
        """A folder with its own SQLite catalog."""
        return self.folder is not None

    def __repr__(self) -> str:
        return f"LakeConfig(location={self.location!r}, catalog_properties={redact(self.catalog_properties)!r}, name={self.name!r})"


def resolve_lake(name_or_path: str | os.PathLike[str], catalog: Mapping[str, Any] | None = None) -> LakeConfig:
    """The lake of a name, folder or location. A name that is configured goes before a folder of that name.

    A `catalog` given here adds to, and goes before, what is configured for the name.
    """
    wanted = os.fspath(name_or_path)
    if not wanted:
        raise ConfigurationError("A lake needs a name, a folder or a location, and got an empty text.")
    named = _named(wanted) if _NAME.fullmatch(wanted) else None
    location, properties = (wanted, {}) if named is None else named
    properties.update(_flat(catalog or {}))
    return _with_catalog(location, properties, wanted) if properties else _embedded(location)


def redact(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping without secrets, to show in logs and run records: values of secret-looking keys, passwords inside URIs."""
    return {key: REDACTED if value is not None and _SECRET_KEY.search(key) else _redact_value(value) for key, value in mapping.items()}


def redact_uri(uri: str) -> str:
    return _USER_INFO.sub(f"{REDACTED}@", uri)


def _redact_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return redact(value)
    return redact_uri(value) if isinstance(value, str) else value


def _embedded(location: str) -> LakeConfig:
    folder = local_path(location)
    if folder is None:
        raise ConfigurationError(
            f"{location} is not a local folder, so it cannot hold a SQLite catalog. "
            'Give a catalog too: connect(location, catalog={"type": "rest", "uri": "…"}) or [lakes.<name>] in lakewright.toml.'
        )
    where = absolute(location)
    return LakeConfig(where, {"type": "sql", "uri": f"sqlite:///{quote(str(folder / 'catalog.db'))}", "warehouse": where}, folder=folder)


def _with_catalog(location: str, given: Mapping[str, str], wanted: str) -> LakeConfig:
    properties = dict(given)
    name = properties.pop("name", CATALOG_NAME)
    _check_type(properties, wanted)
    where = absolute(location)
    if where:
        properties.setdefault("warehouse", where)
    return LakeConfig(where, properties, name)


def absolute(location: str) -> str:
    """The location as a URI that means the same from every folder; "" stays."""
    folder = local_path(location) if location else None
    where = f"file://{folder}" if folder is not None else location.rstrip("/")
    if "#" in where or "?" in where:
        raise ConfigurationError(f"The location {where} has a # or ?, which end the path of a URI; choose another folder.")
    return where


def local_path(location: str) -> Path | None:
    """The absolute local path of a folder or file:// URI; None for other stores."""
    if location.startswith("file:"):
        return Path(location.removeprefix("file:").removeprefix("//")).resolve()
    if "://" in location:
        return None
    return Path(location).expanduser().resolve()


def _check_type(properties: Mapping[str, str], wanted: str) -> None:
    kind = properties.get("type")
    if kind is None:
        if "uri" not in properties and "py-catalog-impl" not in properties:
            raise ConfigurationError(f"The catalog of lake {wanted!r} has neither type nor uri; a type is one of {', '.join(CATALOG_TYPES)}.")
        return
    if kind.lower() not in CATALOG_TYPES:
        if kind.lower() in ("sqlite", "postgres", "postgresql"):
            hint = f'{kind} databases are of type "sql", with a uri such as postgresql+psycopg2://host/db or sqlite:////path/catalog.db.'
        else:
            near = difflib.get_close_matches(kind.lower(), CATALOG_TYPES, n=1)
            hint = (f"Did you mean {near[0]}? " if near else "") + f"Types are {', '.join(CATALOG_TYPES)}."
        raise ConfigurationError(f"The catalog of lake {wanted!r} has the unknown type {kind!r}. {hint}")


def _named(name: str) -> tuple[str, dict[str, str]] | None:
    """Location and catalog configured for a name, if it is; the environment goes before the file, key by key."""
    found, environment = _from_file(name), _from_environment(name)
    if found is None and not environment:
        return None
    location, properties = found if found is not None else (None, {})
    location = environment.pop("location", location)
    properties.update(environment)
    return location or properties.get("warehouse", ""), properties


def _from_environment(name: str) -> dict[str, str]:
    """LAKEWRIGHT_LAKE_PROD_LOCATION, LAKEWRIGHT_LAKE_PROD_CATALOG_URI, …_CATALOG_S3__ACCESS_KEY_ID (`__` is a dot, `_` a hyphen)."""
    prefix = f"LAKEWRIGHT_LAKE_{re.sub(r'[^A-Z0-9]', '_', name.upper())}_"
    found = {}
    for variable, value in os.environ.items():
        if variable == f"{prefix}LOCATION":
            found["location"] = value
        elif variable.startswith(f"{prefix}CATALOG_"):
            found[variable.removeprefix(f"{prefix}CATALOG_").lower().replace("__", ".").replace("_", "-")] = value
    return found


def _from_file(name: str) -> tuple[str | None, dict[str, str]] | None:
    path = _config_file()
    if path is None:
        return None
    lake = _lakes(path).get(name)
    if lake is None:
        return None
    if not isinstance(lake, dict):
        raise ConfigurationError(f"{path}: lakes.{name} should be a table with location and catalog.")
    for key in lake:
        if key not in LAKE_KEYS:
            near = difflib.get_close_matches(key, LAKE_KEYS, n=1)
            raise UnknownOption(
                f"{path}: unknown key {key!r} in [lakes.{name}]." + (f" Did you mean {near[0]}?" if near else f" It takes {' and '.join(LAKE_KEYS)}.")
            )
    location = lake.get("location")
    if location is not None:
        location = _expand(str(location), f"lakes.{name}.location", path)
        if "://" not in location:
            location = str(path.parent / Path(location).expanduser())
    catalog = lake.get("catalog", {})
    if not isinstance(catalog, dict):
        raise ConfigurationError(f'{path}: lakes.{name}.catalog should be a table such as {{type = "rest", uri = "…"}}.')
    properties = {key: _expand(value, f"lakes.{name}.catalog.{key}", path) for key, value in _flat(catalog).items()}
    if location is None and not properties:
        raise ConfigurationError(f"{path}: [lakes.{name}] has neither location nor catalog.")
    return location, properties


def _config_file() -> Path | None:
    """The file LAKEWRIGHT_CONFIG names; else lakewright.toml here; else the user's own."""
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise ConfigurationError(f"{CONFIG_VARIABLE} names {named}, which is not a file.")
        return Path(named).resolve()
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return next((p.resolve() for p in (Path.cwd() / CONFIG_FILE, home / "lakewright" / CONFIG_FILE) if p.is_file()), None)


def _lakes(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            content = tomllib.load(stream)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    lakes = content.get("lakes", {})
    if not isinstance(lakes, dict):
        raise ConfigurationError(f"{path}: lakes should be tables such as [lakes.prod].")
    return lakes


def _expand(value: str, where: str, path: Path) -> str:
    def variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigurationError(f"{path}: {where} refers to the environment variable {match[1]}, which is not set.")
        return os.environ[match[1]]

    return _REFERENCE.sub(variable, value)


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested tables become dotted keys, values the text PyIceberg expects."""
    flat: dict[str, str] = {}
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat
