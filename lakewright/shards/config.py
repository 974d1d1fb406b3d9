"""What a build is asked for, and what it made. Every option is checked before anything is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from types import CodeType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewright.errors import InvalidOption, InvalidRouting, UnknownOption

if TYPE_CHECKING:
    from lakewright.shards.manifest import ShardEntry

CODECS = ("json", "msgpack", "avro")
ERROR, LAST = "error", "last"
SAMPLE_SIZE = 20
ValueFunction = Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True)
class ShardConfig:
    """How a DataFrame becomes a sharded snapshot.

    url: where the snapshot lives: a folder or a URL such as s3://bucket/users.
    key, value: the key's column; the value's, or several columns that `codec` packs, or a function of an Arrow batch that returns
        the values. value_columns: what such a function is given, all columns unless told.
    codec: json, msgpack or avro, for a value of several columns.
    num_shards or max_keys_per_shard (on average): for routing by hash.
    cel: an expression that routes instead, over the key and cel_columns. Without routing_values it yields the shard's number, below
        num_shards; with them one of them; infer_routing_values finds them in the rows first.
    backend: sqlite or slatedb.
    sort: rows arrive at their shard in the order of their keys, which is fastest to load.
    duplicates: error, or last: of a key's rows the one with the highest value of `ordering` stays.
    operations_per_second, bytes_per_second: limits for each shard.
    verify_routing, sample_size: so many keys of each shard are routed again before it is written.
    batch_rows: rows that a task takes at a time.
    cache_input: keep the rows in Spark's cache where they are read more than once.
    spark_conf_overrides: session settings for the time of the build.
    shard_retry: further tries of write_single; a build's tasks are tried again by Spark.
    run_registry_prefix: folder of the run records below url. lease_seconds: how long a run counts as alive after its last heartbeat.
    storage: options of the store, such as s3.endpoint.
    """

    url: str
    key: str
    value: str | Sequence[str] | ValueFunction
    num_shards: int | None = None
    max_keys_per_shard: int | None = None
    cel: str | None = None
    cel_columns: Sequence[str] = ()
    routing_values: Sequence[str | int | bool] | None = None
    infer_routing_values: bool = False
    codec: str = "json"
    value_columns: Sequence[str] | None = None
    backend: str = "sqlite"
    sort: bool = True
    duplicates: str = ERROR
    ordering: str | None = None
    operations_per_second: float | None = None
    bytes_per_second: float | None = None
    verify_routing: bool = True
    sample_size: int = SAMPLE_SIZE
    batch_rows: int = 20_000
    cache_input: bool = False
    spark_conf_overrides: Mapping[str, str] = field(default_factory=dict)
    shard_retry: int = 2
    run_registry_prefix: str = "runs"
    lease_seconds: int = 60
    storage: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("cel_columns", "routing_values", "value_columns", "value"):
            given = getattr(self, name)
            if isinstance(given, Sequence) and not isinstance(given, str):
                object.__setattr__(self, name, tuple(given))
        _check_names(self)
        _check_routing(self)
        _check_duplicates(self)
        _check_numbers(self)
        _check_choice("backend", self.backend, ("sqlite", "slatedb"))
        _check_choice("codec", self.codec, CODECS)
        prefix = self.run_registry_prefix
        if not prefix.strip("/") or prefix != prefix.strip("/") or ".." in prefix.split("/"):
            raise InvalidOption(f"run_registry_prefix is {prefix!r}; it takes the name of a folder below the url, without slashes around it.")

    @classmethod
    def of(cls, **options: Any) -> ShardConfig:
        """From keywords; a name that is no option gets a hint."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                raise UnknownOption(f"Unknown option {name!r} of a sharded snapshot." + (f" Did you mean {near[0]}?" if near else f" It takes {', '.join(known)}."))
        if "value" not in options:
            raise InvalidOption("What is the value of a key? Give value=<column>, a list of columns, or a function.")
        return cls(**options)

    @property
    def digest(self) -> str:
        """Of what decides which shard a row goes to and what its bytes are: shards of two builds mix only where this is the same."""
        told = {
            "key": self.key,
            "value": _fingerprint(self.value) if callable(self.value) else self.value,
            "codec": self.codec if isinstance(self.value, tuple) else None,
            "value_columns": self.value_columns,
            "num_shards": self.num_shards,
            "max_keys_per_shard": self.max_keys_per_shard,
            "cel": self.cel,
            "cel_columns": self.cel_columns,
            "routing_values": self.routing_values,
            "infer_routing_values": self.infer_routing_values,
            "backend": self.backend,
            "duplicates": self.duplicates,
            "ordering": self.ordering,
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def columns(self, available: Sequence[str]) -> list[str]:
        """The columns that a task needs beside the key, in the order they are given to the codec."""
        if isinstance(self.value, str):
            return [self.value]
        if isinstance(self.value, tuple):
            return list(self.value)
        return list(self.value_columns if self.value_columns is not None else available)


@dataclass(frozen=True)
class BuildResult:
    """A published snapshot. Durations are seconds by phase."""

    url: str
    run_id: str
    run_record_ref: str
    manifest_ref: str
    version: int
    shards: tuple[ShardEntry, ...]
    rows: int
    bytes: int
    durations: Mapping[str, float]
    shards_rebuilt: int
    shards_carried: int
    routing_verified: bool
    full_because: str | None = None
    source_snapshot_id: int | None = None

    @property
    def num_shards(self) -> int:
        return len(self.shards)


def _fingerprint(function: Any) -> list[str]:
    """What a function is, as far as can be told: where it comes from and its code. What it calls is not looked into."""
    code: CodeType | None = getattr(function, "__code__", None)
    return [str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", type(function).__qualname__)), *(_code(code) if code else ())]


def _code(code: CodeType) -> list[str]:
    inner = [part for constant in code.co_consts for part in (_code(constant) if isinstance(constant, CodeType) else [repr(constant)])]
    return [code.co_code.hex(), *code.co_names, *inner]


def _check_names(config: ShardConfig) -> None:
    for name, given in (("url", config.url), ("key", config.key)):
        if not isinstance(given, str) or not given:
            raise InvalidOption(f"{name} is {given!r}; it takes a text that is not empty.")
    if not callable(config.value):
        names = (config.value,) if isinstance(config.value, str) else config.value
        if not isinstance(names, tuple) or not names or not all(isinstance(name, str) and name for name in names):
            raise InvalidOption(f"value is {config.value!r}; it takes a column, a list of columns, or a function of an Arrow batch.")
        if len(set(names)) < len(names):
            raise InvalidOption(f"value names a column twice: {', '.join(names)}.")
        if config.value_columns is not None:
            raise InvalidOption("value_columns goes with a function as value; columns are named in value itself.")


def _check_routing(config: ShardConfig) -> None:
    if config.num_shards is not None and (isinstance(config.num_shards, bool) or not isinstance(config.num_shards, int) or config.num_shards < 1):
        raise InvalidRouting(f"num_shards is {config.num_shards!r}; it takes a whole number from 1.")
    if config.max_keys_per_shard is not None and (isinstance(config.max_keys_per_shard, bool) or not isinstance(config.max_keys_per_shard, int) or config.max_keys_per_shard < 1):
        raise InvalidRouting(f"max_keys_per_shard is {config.max_keys_per_shard!r}; it takes a whole number from 1.")
    if config.num_shards is not None and config.max_keys_per_shard is not None:
        raise InvalidRouting("num_shards and max_keys_per_shard both say how many shards there are; give one of them.")
    if config.cel is None:
        if config.cel_columns or config.routing_values is not None or config.infer_routing_values:
            raise InvalidRouting("cel_columns, routing_values and infer_routing_values go with an expression; give cel too.")
        if config.num_shards is None and config.max_keys_per_shard is None:
            raise InvalidRouting("The number of shards is missing: give num_shards, max_keys_per_shard, or an expression (cel) with its values.")
        return
    if config.max_keys_per_shard is not None:
        raise InvalidRouting("max_keys_per_shard goes with routing by hash; an expression decides itself which shard a row is in.")
    if config.routing_values is not None and config.infer_routing_values:
        raise InvalidRouting("routing_values are given and infer_routing_values asks for them to be found; choose one.")
    if config.num_shards is None and config.routing_values is None and not config.infer_routing_values:
        raise InvalidRouting(f"The expression {config.cel!r} yields the shard's number: give num_shards; or routing_values, or infer_routing_values=True, where it yields tokens.")
    if config.infer_routing_values and config.num_shards is not None:
        raise InvalidRouting("With infer_routing_values every token found is a shard; leave num_shards out.")


def _check_duplicates(config: ShardConfig) -> None:
    _check_choice("duplicates", config.duplicates, (ERROR, LAST))
    if (config.duplicates == LAST) != (config.ordering is not None):
        raise InvalidOption("duplicates='last' and ordering go together: the column that says which of a key's rows is the last.")
    if not config.sort and config.duplicates == LAST:
        raise InvalidOption("duplicates='last' needs the rows sorted by key; leave sort at True.")


def _check_numbers(config: ShardConfig) -> None:
    for name in ("operations_per_second", "bytes_per_second"):
        rate = getattr(config, name)
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < float("inf")):
            raise InvalidOption(f"{name} is {rate!r}; it takes a number above 0.")
    for name, least in (("sample_size", 1), ("batch_rows", 1), ("shard_retry", 0), ("lease_seconds", 1)):
        given = getattr(config, name)
        if isinstance(given, bool) or not isinstance(given, int) or given < least:
            raise InvalidOption(f"{name} is {given!r}; it takes a whole number from {least}.")


def _check_choice(name: str, given: object, choices: Sequence[str]) -> None:
    if given not in choices:
        near = get_close_matches(str(given), choices, n=1)
        raise InvalidOption(f"{name} is {given!r}; it takes one of {', '.join(choices)}." + (f" Did you mean {near[0]}?" if near else ""))
