"""Every option, declared once: its names, type, default and one line of documentation.

An option has one short key (`target-file-size-bytes`). From it follow the keyword of the Python API
(`target_file_size_bytes=`), the Data Source option, and the session setting (`spark.lakewright.target-file-size-bytes`).
Its table property is Iceberg's where Iceberg has one. They win in that order: write option, session, property, default.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lakewright.errors import InvalidOption, UnknownOption

T = TypeVar("T")
SESSION_PREFIX = "spark.lakewright."


@dataclass(frozen=True)
class Option(Generic[T]):
    key: str
    table_property: str | None
    parse: Callable[[Any], T]
    default: T
    doc: str

    @property
    def keyword(self) -> str:
        return self.key.replace("-", "_").replace(".", "_")

    @property
    def session_key(self) -> str:
        return SESSION_PREFIX + self.key


def boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text == "true"


def text(value: Any) -> str:
    return str(value)


def positive(value: Any) -> int:
    number = int(str(value))
    if number <= 0:
        raise ValueError("a whole number above 0")
    return number


def count(value: Any) -> int:
    number = int(str(value))
    if number < 0:
        raise ValueError("a whole number from 0")
    return number


def one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        chosen = str(value).strip().lower()
        if chosen not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return chosen

    parse.__name__ = " | ".join(choices)
    return parse


def maybe(parse: Callable[[Any], T]) -> Callable[[Any], T | None]:
    def parse_or_none(value: Any) -> T | None:
        return None if value is None else parse(value)

    parse_or_none.__name__ = parse.__name__
    return parse_or_none


REGISTRY: dict[str, Option[Any]] = {}


def declare(key: str, table_property: str | None, parse: Callable[[Any], T], default: T, doc: str) -> Option[T]:
    option = Option(key, table_property, parse, default, doc)
    REGISTRY[key] = option
    return option


MIB = 1024 * 1024

# Files
ENGINE = declare("engine", "lakewright.engine", one_of("auto", "native", "arrow"), "auto", "Who writes data files: Spark's own Parquet writer (native), Arrow in Python tasks (arrow), or whichever fits (auto).")
FORMAT = declare("write-format", "write.format.default", text, "parquet", "Format of data files; only parquet can be written.")
TARGET_FILE_SIZE = declare("target-file-size-bytes", "write.target-file-size-bytes", positive, 128 * MIB, "Size at which a new data file is begun.")
ROW_GROUP_SIZE = declare("row-group-size-bytes", "write.parquet.row-group-size-bytes", positive, 128 * MIB, "Size of a Parquet row group.")
ROW_GROUP_LIMIT = declare("row-group-limit", "write.parquet.row-group-limit", positive, 1024 * 1024, "Most rows in a row group (arrow engine).")
PAGE_SIZE = declare("page-size-bytes", "write.parquet.page-size-bytes", positive, MIB, "Size of a Parquet page.")
DICT_SIZE = declare("dict-size-bytes", "write.parquet.dict-size-bytes", positive, 2 * MIB, "Size at which a Parquet dictionary is given up.")
DICT_ENABLED = declare("dictionary-enabled", "write.parquet.dictionary-enabled", boolean, True, "Encode repeating values with a dictionary.")
COMPRESSION = declare("compression-codec", "write.parquet.compression-codec", one_of("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"), "zstd", "Parquet compression.")
COMPRESSION_LEVEL = declare("compression-level", "write.parquet.compression-level", maybe(count), None, "Level of the compression, where the codec has levels.")
FANOUT = declare("fanout-enabled", "write.spark.fanout.enabled", boolean, False, "Keep one file open per partition instead of sorting rows by partition first.")
MAX_OPEN_FILES = declare("max-open-files", "lakewright.max-open-files", positive, 64, "Most files a fanout task keeps open; past it the fullest one is closed.")

# Layout
DISTRIBUTION = declare("distribution-mode", "write.distribution-mode", maybe(one_of("none", "hash", "range")), None, "How rows are moved between tasks before writing: none, hash by partition, range by sort order. Default: hash when partitioned, range when sorted, else none.")
ADVISORY_PARTITION_SIZE = declare("advisory-partition-size", "write.spark.advisory-partition-size-bytes", maybe(positive), None, "Bytes of shuffled rows one writing task should get.")
OUTPUT_SPEC_ID = declare("output-spec-id", None, maybe(count), None, "Partition spec to write with, instead of the table's current one.")
OBJECT_STORE_PATHS = declare("object-storage-enabled", "write.object-storage.enabled", boolean, False, "Put a hash in front of the path of each data file, to spread load over an object store.")

# Schema
MERGE_SCHEMA = declare("merge-schema", "lakewright.merge-schema", boolean, False, "Add columns the table does not have and widen types where no value can be lost.")
EXPLICIT_CAST = declare("merge-schema.explicit-cast", "lakewright.merge-schema.explicit-cast", boolean, False, "With merge-schema: also cast where values may not fit; a value that does not fit fails the write.")
CHECK_NULLABILITY = declare("check-nullability", "lakewright.check-nullability", boolean, True, "Refuse a nullable column for a required one before writing; if off, rows are checked while writing.")
CHECK_ORDERING = declare("check-ordering", "lakewright.check-ordering", boolean, False, "Require columns in the table's order.")
ACCEPT_ANY_SCHEMA = declare("accept-any-schema", "write.spark.accept-any-schema", boolean, False, "Take any columns: those the table lacks are dropped, those the rows lack become null.")

# Commit
ISOLATION = declare("isolation-level", "lakewright.isolation-level", one_of("serializable", "snapshot"), "serializable", "What an overwrite checks for at commit: new rows and deletes in its range (serializable), or deletes only (snapshot).")
RETRIES = declare("commit-retry-num-retries", "commit.retry.num-retries", count, 20, "How often a commit that lost a race is rebuilt and tried again.")
RETRY_MIN_WAIT = declare("commit-retry-min-wait-ms", "commit.retry.min-wait-ms", positive, 100, "First wait between attempts.")
RETRY_MAX_WAIT = declare("commit-retry-max-wait-ms", "commit.retry.max-wait-ms", positive, 60_000, "Longest wait between attempts.")
RETRY_TOTAL = declare("commit-retry-total-timeout-ms", "commit.retry.total-timeout-ms", positive, 1_800_000, "Time after which a commit gives up.")
MANIFEST_TARGET_SIZE = declare("manifest-target-size-bytes", "commit.manifest.target-size-bytes", positive, 8 * MIB, "Size manifests are merged up to.")
MANIFEST_MIN_COUNT = declare("manifest-min-count-to-merge", "commit.manifest.min-count-to-merge", positive, 100, "How many small manifests gather before they are merged.")
MANIFEST_MERGE = declare("manifest-merge-enabled", "commit.manifest-merge.enabled", boolean, True, "Merge small manifests at commit.")
METADATA_PREVIOUS_MAX = declare("metadata-previous-versions-max", "write.metadata.previous-versions-max", positive, 100, "How many earlier metadata files the table remembers.")
METADATA_DELETE_AFTER = declare("metadata-delete-after-commit", "write.metadata.delete-after-commit.enabled", boolean, False, "Delete metadata files that fall off that list.")
METRICS_DEFAULT = declare("metrics-default", "write.metadata.metrics.default", text, "truncate(16)", "Column metrics kept per file: none, counts, truncate(n) or full.")
METRICS_MAX_COLUMNS = declare("metrics-max-inferred-columns", "write.metadata.metrics.max-inferred-column-defaults", positive, 100, "Columns past this number keep no metrics unless named.")

# Row-level changes
MODES, LEVELS = one_of("copy-on-write", "merge-on-read"), one_of("serializable", "snapshot")
DELETE_MODE = declare("delete-mode", "write.delete.mode", MODES, "copy-on-write", "How DELETE changes files: new files without the rows (copy-on-write), or deletes beside the old ones (merge-on-read).")
UPDATE_MODE = declare("update-mode", "write.update.mode", MODES, "copy-on-write", "How UPDATE changes files.")
MERGE_MODE = declare("merge-mode", "write.merge.mode", MODES, "copy-on-write", "How MERGE changes files.")
DELETE_ISOLATION = declare("delete-isolation-level", "write.delete.isolation-level", LEVELS, "serializable", "What a DELETE checks for at commit: new rows its condition may match and deletes of rows it touches (serializable), or the latter only (snapshot).")
UPDATE_ISOLATION = declare("update-isolation-level", "write.update.isolation-level", LEVELS, "serializable", "The same for UPDATE.")
MERGE_ISOLATION = declare("merge-isolation-level", "write.merge.isolation-level", LEVELS, "serializable", "The same for MERGE.")
DELETE_GRANULARITY = declare("delete-granularity", "write.delete.granularity", one_of("file", "partition"), "file", "Position deletes of format 2: a delete file for each data file, or one for all of a partition.")
DELETE_TARGET_SIZE = declare("delete-target-file-size-bytes", "write.delete.target-file-size-bytes", positive, 32 * MIB, "Size at which a new position delete file is begun.")
REPLANS = declare("row-level-replans", "lakewright.row-level-replans", count, 3, "How often a DELETE, UPDATE or MERGE that met a conflicting commit is planned again on the table as it then is.")

# Keyed tables
MERGE_ENGINE = declare("merge-engine", "lakewright.merge-engine", text, "latest", "What becomes of a key's row when another record comes: latest, first-row, partial-update, aggregate, expression or python:<module>:<function>. aggregate and expression take lakewright.merge.<column>.")
INDEX = declare("index", "lakewright.index", text, "auto", "How files with a batch's keys are found: range (bounds and bloom filters), bucket (by the key's bucket), record (a kept index of key hashes), python:<module>:<class>, or auto: range, and record where the table has one.")
PARTITION_CHANGE = declare("partition-change", "lakewright.partition-change", one_of("move", "keep", "error"), "move", "What an upsert does with a key whose record belongs to another partition: move the row, keep it and its partition columns, or fail.")
SHUFFLE_PARALLELISM = declare("shuffle-parallelism", "lakewright.shuffle-parallelism", maybe(positive), None, "Tasks that combine the records of a batch; default: Spark's own choice.")
UPSERT_REPLANS = declare("upsert-replans", "lakewright.upsert-replans", count, 100, "How often an upsert, insert or delete by key that met a conflicting commit is planned again.")

# Runs
LEASE_SECONDS = declare("run-lease-seconds", "lakewright.run-lease-seconds", positive, 60, "How long a run is taken for alive after its last heartbeat.")


class Options(Mapping[Option[Any], Any]):
    """The settings of one operation, resolved once and then only read: `options[TARGET_FILE_SIZE]`."""

    def __init__(self, given: Mapping[str, Any], session: Mapping[str, Any], properties: Mapping[str, str]) -> None:
        self._values = {o.key: _resolve(o, given, session, properties) for o in REGISTRY.values()}
        self.properties = dict(properties)

    def __getitem__(self, option: Option[T]) -> T:
        return self._values[option.key]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Option[Any]]:
        return (REGISTRY[key] for key in self._values)

    def __len__(self) -> int:
        return len(self._values)


def _resolve(option: Option[T], given: Mapping[str, Any], session: Mapping[str, Any], properties: Mapping[str, str]) -> T:
    for name, source in ((option.key, given), (option.session_key, session), (option.table_property, properties)):
        if name is not None and source.get(name) is not None:
            return _parsed(option, name, source[name])
    return option.default


def _parsed(option: Option[T], name: str, value: Any) -> T:
    try:
        return option.parse(value)
    except ValueError as error:
        wanted = str(error) if not str(error).startswith("invalid literal") else "a whole number"
        raise InvalidOption(f"Option {name} is {value!r}; it takes {wanted}.") from None


def resolve(given: Mapping[str, Any], session: Mapping[str, Any], properties: Mapping[str, str]) -> Options:
    """Settings of one operation; `given` holds short keys or keywords, and nothing undeclared."""
    keywords = {o.keyword: o.key for o in REGISTRY.values()}
    chosen = {keywords.get(name, name): value for name, value in given.items()}
    for name in chosen:
        if name not in REGISTRY:
            near = difflib.get_close_matches(name, [*REGISTRY, *keywords], n=3)
            hint = f" Did you mean {', '.join(near)}?" if near else " The options are listed in docs/reference/options.md."
            raise UnknownOption(f"Unknown option {name!r}.{hint}")
    return Options(chosen, session, properties)
