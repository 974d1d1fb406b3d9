"""The options of `format("lakewright")`, checked and sorted by what they are for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakewright.catalogs import open_catalog, open_sqlite
from lakewright.commit.store import Store, TableState, open_store
from lakewright.config import LakeConfig, resolve_lake
from lakewright.errors import ConfigurationError, InvalidOption, UnknownOption, UnsupportedOperation
from lakewright.format.metadata import MAIN
from lakewright.options import REGISTRY

LAKE, PATH, CATALOG, SNAPSHOT_PROPERTY = "lake", "path", "catalog.", "snapshot-property."
SNAPSHOT_ID, AS_OF, BRANCH, TAG = "snapshot-id", "as-of-timestamp", "branch", "tag"
TOKEN, OVERWRITE_MODE, OVERWRITE_FILTER = "token", "overwrite-mode", "overwrite-filter"
TRAVEL = (SNAPSHOT_ID, AS_OF, BRANCH, TAG)
QUERY_TYPE, BEGIN, END, PATH_GLOB, LOG = "query-type", "begin", "end", "path-glob", "log"
SNAPSHOT, INCREMENTAL = "snapshot", "incremental"
RANGE = (BEGIN, END, PATH_GLOB, LOG)
OVERWRITE_MODES = ("static", "dynamic")
_KEYWORDS = {option.keyword: option.key for option in REGISTRY.values()}


@dataclass(frozen=True)
class Place:
    """The table that is meant. It pickles, and holds an absolute location, since workers may stand in another folder."""

    lake: LakeConfig
    identifier: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.identifier)


@dataclass(frozen=True)
class ReadOptions:
    """Which version of the table; at most one of them is set. Or which changes: then it is incremental, and a ref says of which branch."""

    snapshot_id: int | None = None
    as_of: str | int | None = None
    ref: str | None = None
    incremental: bool = False
    begin: str | int | None = None
    end: str | int | None = None
    path_glob: str | None = None
    log: bool = False


@dataclass(frozen=True)
class SourceWrite:
    """What a write through the Data Source asks for, before the session's settings are known."""

    place: Place
    overwrite: bool
    dynamic: bool | None = None
    where: str | None = None
    branch: str = MAIN
    token: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


def place(options: Mapping[str, str]) -> Place:
    if LAKE not in options:
        raise ConfigurationError('Option "lake" is missing: say which lake, as in .option("lake", "lake") with a folder, a location or a configured name.')
    if not options.get(PATH):
        raise ConfigurationError('No table is named: say which, as in .load("nyc.trips") or .save("nyc.trips").')
    identifier = tuple(options[PATH].split("."))
    if len(identifier) < 2 or not all(identifier):
        raise ConfigurationError(f'{options[PATH]!r} is not a table name: it takes a namespace and a name, as in "nyc.trips".')
    catalog = {key.removeprefix(CATALOG): value for key, value in options.items() if key.startswith(CATALOG)}
    return Place(resolve_lake(options[LAKE], catalog or None), identifier)


def load(where: Place) -> tuple[Store, TableState]:
    """The table as it is now. Only `connect` makes a lake, so a mistyped one is not made here."""
    store = open_store(open_sqlite(where.lake) if where.lake.embedded else open_catalog(where.lake, create=False))
    return store, store.load(where.identifier)


def read_options(options: Mapping[str, str]) -> ReadOptions:
    _require_known(options, (LAKE, PATH, *TRAVEL, QUERY_TYPE, *RANGE), (CATALOG,))
    given = [key for key in TRAVEL if key in options]
    if len(given) > 1:
        raise InvalidOption(f"Options {' and '.join(given)} each choose a version of the table; give one of them.")
    if _is_incremental(options):
        return _changes_options(options)
    if SNAPSHOT_ID in options:
        return ReadOptions(snapshot_id=_whole_number(SNAPSHOT_ID, options[SNAPSHOT_ID]))
    if AS_OF in options:
        text = options[AS_OF].strip()
        return ReadOptions(as_of=int(text) if text.isdigit() else text)
    return ReadOptions(ref=options.get(BRANCH, options.get(TAG)))


def _is_incremental(options: Mapping[str, str]) -> bool:
    kind = options.get(QUERY_TYPE, SNAPSHOT).lower()
    if kind not in (SNAPSHOT, INCREMENTAL):
        raise InvalidOption(f"Option {QUERY_TYPE} is {options[QUERY_TYPE]!r}; it takes {SNAPSHOT} or {INCREMENTAL}.")
    alone = next((key for key in RANGE if key in options), None)
    if alone is not None and kind == SNAPSHOT:
        raise InvalidOption(f"Option {alone} goes with .option({QUERY_TYPE!r}, {INCREMENTAL!r}).")
    return kind == INCREMENTAL


def _changes_options(options: Mapping[str, str]) -> ReadOptions:
    version = next((key for key in (SNAPSHOT_ID, AS_OF) if key in options), None)
    if version is not None:
        raise InvalidOption(f"Option {version} chooses one version of the table; changes lie between {BEGIN} and {END}.")
    log = options.get(LOG, "false").lower()
    if log not in ("true", "false"):
        raise InvalidOption(f"Option {LOG} is {options[LOG]!r}; it takes true or false.")
    ref = options.get(BRANCH, options.get(TAG))
    return ReadOptions(ref=ref, incremental=True, begin=options.get(BEGIN), end=options.get(END), path_glob=options.get(PATH_GLOB), log=log == "true")


def write_options(options: Mapping[str, str], overwrite: bool) -> SourceWrite:
    """Table options are checked later, with the session's, since tasks alone see those."""
    if not options.get(PATH):
        raise UnsupportedOperation(
            "This write does not say which table of which lake is meant: saveAsTable(…) and writeTo(…) name one of Spark's own catalog, and Lakewright is not told. "
            'Use df.write.format("lakewright").mode("append").option("lake", "lake").save("nyc.trips"), t.append(df), or lake.write(df, "nyc.trips").'
        )
    target = place(options)
    own = (LAKE, PATH, BRANCH, TOKEN, OVERWRITE_MODE, OVERWRITE_FILTER)
    _require_known(options, (*own, *REGISTRY, *_KEYWORDS), (CATALOG, SNAPSHOT_PROPERTY), near=(TAG, SNAPSHOT_ID))
    mode, where = options.get(OVERWRITE_MODE), options.get(OVERWRITE_FILTER)
    if mode is not None and mode.lower() not in OVERWRITE_MODES:
        raise InvalidOption(f"Option {OVERWRITE_MODE} is {mode!r}; it takes one of {', '.join(OVERWRITE_MODES)}.", table=target.name)
    if not overwrite and (mode or where):
        raise InvalidOption(f'Option {OVERWRITE_MODE if mode else OVERWRITE_FILTER} goes with .mode("overwrite").', table=target.name)
    if where and mode and mode.lower() == "dynamic":
        raise InvalidOption(f"Give {OVERWRITE_FILTER} or {OVERWRITE_MODE}=dynamic, not both: each says what is replaced.", table=target.name)
    return SourceWrite(
        place=target,
        overwrite=overwrite,
        dynamic=None if mode is None else mode.lower() == "dynamic",
        where=where,
        branch=options.get(BRANCH, MAIN),
        token=options.get(TOKEN),
        snapshot_properties={k.removeprefix(SNAPSHOT_PROPERTY): v for k, v in options.items() if k.startswith(SNAPSHOT_PROPERTY)},
        options={_KEYWORDS.get(key, key): value for key, value in options.items() if key in REGISTRY or key in _KEYWORDS},
    )


def _require_known(options: Iterable[str], known: Iterable[str], prefixes: tuple[str, ...], near: Iterable[str] = ()) -> None:
    names = list(known)
    for key in options:
        if key in names or key.startswith(prefixes):
            continue
        if key in near:
            raise UnknownOption(f"Option {key} chooses a version to read; a write goes to a branch: .option({BRANCH!r}, …).")
        close = difflib.get_close_matches(key, [*(name for name in names if "_" not in name), *(f"{p}…" for p in prefixes)], n=3)
        hint = f" Did you mean {', '.join(close)}?" if close else " The options are listed in docs/reference/options.md."
        raise UnknownOption(f"Unknown option {key!r}.{hint}")


def _whole_number(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise InvalidOption(f"Option {key} is {value!r}; it takes a whole number.") from None
