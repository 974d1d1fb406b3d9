"""Every option, declared once: its names, type, default and one line of documentation.

An option has one short key (`target-file-size-bytes`). From it follow the keyword of the Python API
(`target_file_size_bytes=`), the Data Source option, and the session setting (`spark.lakewright.target-file-size-bytes`).
Its table property is Iceberg's where Iceberg has one. They win in that order: write option, session, property, default.
"""

from __future__ import annotations

import copy
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


def ratio(value: Any) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError("a number from 0 to 1")
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
BUCKET_MODE = declare("bucket-mode", "lakewright.bucket-mode", one_of("none", "fixed", "dynamic", "key-dynamic", "unaware", "postpone"), "none", "How rows of a partition are spread over files: fixed (a number of buckets by key), dynamic and key-dynamic (files filled to a number of rows), unaware (as they come), postpone (on a branch until a compaction).")
BUCKET = declare("bucket", "lakewright.bucket", maybe(positive), None, "Number of buckets of the bucket mode fixed, and of postpone once compacted.")
BUCKET_TARGET_ROWS = declare("bucket.target-rows", "lakewright.bucket.target-rows", positive, 2_000_000, "Rows a bucket of the modes dynamic and key-dynamic is filled to.")
FIXED_AT_BATCH_WRITE = declare("postpone.fixed-at-batch-write", "lakewright.postpone.fixed-at-batch-write", boolean, False, "With the bucket mode postpone: batch writes go straight to buckets.")
SHUFFLE_PARALLELISM = declare("shuffle-parallelism", "lakewright.shuffle-parallelism", maybe(positive), None, "Tasks that combine the records of a batch; default: Spark's own choice.")
DRIVER_BATCH_SIZE = declare("driver-batch-size-bytes", "lakewright.driver-batch-size-bytes", count, 64 * MIB, "Size of a batch of records, as Spark estimates it, up to which keys are looked up and rows written by the driver's own process instead of Spark tasks. 0: never.")
UPSERT_REPLANS = declare("upsert-replans", "lakewright.upsert-replans", count, 100, "How often an upsert, insert or delete by key that met a conflicting commit is planned again.")
# Compaction
COMPACT_MIN_FILE = declare("compact.min-file-size", "lakewright.compact.min-file-size", maybe(positive), None, "Files below this size are combined by a compaction. Default: 75% of the target size.")
COMPACT_MAX_FILE = declare("compact.max-file-size", "lakewright.compact.max-file-size", maybe(positive), None, "Files above this size are split by a compaction. Default: 180% of the target size.")
COMPACT_MIN_INPUTS = declare("compact.min-input-files", "lakewright.compact.min-input-files", positive, 2, "Least number of small files that are combined into one.")
COMPACT_DELETE_RATIO = declare("compact.delete-ratio", "lakewright.compact.delete-ratio", ratio, 0.0, "Share of a file's rows that must be deleted by vectors or position deletes for it to be rewritten; 0: any. Equality deletes always count.")
COMPACT_OLD_SPECS = declare("compact.old-specs", "lakewright.compact.old-specs", boolean, False, "Also rewrite files of older partition specs that are neither small nor large nor have deletes.")
COMPACT_MIN_ROW_GROUP = declare("compact.min-row-group-size", "lakewright.compact.min-row-group-size", count, 8 * MIB, "Row groups below this size, or a quarter of write.parquet.row-group-size-bytes if that is less, are decoded and joined to larger ones; others are copied as bytes.")
COMPACT_COPY = declare("compact.copy-chunks", "lakewright.compact.copy-chunks", boolean, True, "Copy column chunks as bytes where no row goes; off: encode everything anew, with the table's present codec and page settings.")
COMPACT_AFTER = declare("compact.after-commits", "lakewright.compact.after-commits", maybe(positive), None, "Compact after a write when so many data commits were made to the branch since its last compaction. Default: never.")

# Expiry
MAX_SNAPSHOT_AGE = declare("max-snapshot-age-ms", "history.expire.max-snapshot-age-ms", positive, 432_000_000, "Age from which a snapshot expires, where its branch does not say; 5 days.")
MIN_SNAPSHOTS = declare("min-snapshots-to-keep", "history.expire.min-snapshots-to-keep", positive, 1, "How many snapshots of a branch are kept at any age, where it does not say.")
MAX_REF_AGE = declare("max-ref-age-ms", "history.expire.max-ref-age-ms", maybe(positive), None, "Age of its snapshot from which a branch or tag other than main is dropped, where it does not say. Default: never.")

# Runs
LEASE_SECONDS = declare("run-lease-seconds", "lakewright.run-lease-seconds", positive, 60, "How long a run is taken for alive after its last heartbeat.")


class Options(Mapping[Option[Any], Any]):
    """The settings of one operation, resolved once and then only read: `options[TARGET_FILE_SIZE]`."""

    def __init__(self, given: Mapping[str, Any], session: Mapping[str, Any], properties: Mapping[str, str]) -> None:
        self._values = {o.key: _resolve(o, given, session, properties) for o in REGISTRY.values()}
        self.properties = dict(properties)

    def replaced(self, option: Option[T], value: T) -> Options:
        """The same but for one setting, which an operation has reason to choose itself."""
        changed = copy.copy(self)
        changed._values = {**self._values, option.key: value}
        return changed

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
