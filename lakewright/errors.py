"""Every exception Lakewright raises on purpose: each says what was wrong, where, and what to do."""

from __future__ import annotations


class LakewrightError(Exception):
    """Base of all errors. `table` and `column` name the place where one is known; `line` and `position`, both from 1, the place in SQL text."""

    line = 0
    position = 0

    def __init__(self, message: str, *, table: str | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.table = table
        self.column = column


class ConfigurationError(LakewrightError):
    """A lake, session or setting that cannot work as given."""


class UnknownOption(ConfigurationError):
    """An option no one declared; the message suggests near names."""


class InvalidOption(ConfigurationError):
    """A declared option with a value of the wrong type or range."""


class SessionConflict(ConfigurationError):
    """Two threads need different Spark settings on one session at the same time."""


class CatalogUnavailable(LakewrightError):
    """The catalog did not answer; nothing was changed."""


class NamespaceNotFound(LakewrightError):
    """The namespace is not in the catalog."""


class NamespaceExists(LakewrightError):
    """The namespace is already in the catalog."""


class NamespaceNotEmpty(LakewrightError):
    """The namespace still holds tables."""


class TableNotFound(LakewrightError):
    """The table is not in the catalog."""


class TableExists(LakewrightError):
    """The table is already in the catalog."""


class SchemaError(LakewrightError):
    """Rows or a change that do not fit the table's schema."""


class UnsupportedType(SchemaError):
    """A type the table format has no place for."""


class ColumnNotFound(SchemaError):
    """A column that is not there; the message suggests near names."""


class DuplicateColumn(SchemaError):
    """Two columns with one name, or names that differ only by case."""


class TypeMismatch(SchemaError):
    """A value type that cannot become the column's type without loss."""


class NullInRequiredColumn(SchemaError):
    """A null, or a column that may hold one, for a required column."""


class IllegalEvolution(SchemaError):
    """A schema or partition change the format does not allow."""


class InvalidTransform(LakewrightError):
    """A partition transform that is unknown or does not fit its column."""


class InvalidFilter(LakewrightError):
    """A `where` that cannot be parsed or bound to the table."""


class SqlError(LakewrightError):
    """SQL text that cannot be read or resolved."""


class UnsupportedStatement(SqlError):
    """SQL that Spark knows and lake tables do not; the message says which part, and what to use."""


class MultipleMatches(LakewrightError):
    """A MERGE whose source has several rows for one row of the table."""


class NullKey(SchemaError):
    """Records without a key for a keyed table."""


class DuplicateKey(LakewrightError):
    """A key that is already in the table, or twice in a batch that is not to be combined."""


class PartitionChanged(LakewrightError):
    """A record that belongs to another partition than its key's row, where lakewright.partition-change is error."""


class RowsOutsideFilter(LakewrightError):
    """Rows given to an overwrite that its own `where` does not cover."""


class UnsupportedOperation(LakewrightError):
    """Something this entry or this format cannot do; the message names what can."""


class UnsupportedFormat(UnsupportedOperation):
    """A data file format other than Parquet."""


class RefNotFound(LakewrightError):
    """A branch, tag or snapshot that the table does not have."""


class RangeNotFound(RefNotFound):
    """A range of commits that the table does not have, or no longer keeps; the message names the earliest usable commit."""


class RefExists(LakewrightError):
    """A branch or tag that is already there."""


class SavepointNotFound(RefNotFound):
    """A savepoint that the table does not have; the message names those it has."""


class NotAnAncestor(LakewrightError):
    """A rollback to a snapshot outside the branch's line; the message names usable ones."""


class NotABranch(LakewrightError):
    """A write aimed at a tag or a historical snapshot."""


class CommitConflict(LakewrightError):
    """Another commit changed what this one relied on; nothing was changed."""


class StalePlan(CommitConflict):
    """The rows or files this plan rests on changed since it read them; planning again on the newest version can solve it.

    by_rewrite: what it met changed no row, as a compaction does not.
    """

    by_rewrite = False


class CommitRetriesExhausted(CommitConflict):
    """Other writers won every attempt; nothing was changed."""


class CommitOutcomeUnknown(LakewrightError):
    """The publish may or may not have happened; nothing was deleted. Run again with the same token."""


class WriteFailed(LakewrightError):
    """Tasks could not write; the files they left were deleted and the table is as before."""


class StorageFull(WriteFailed):
    """The disk or quota ran out; the table is as before."""


class PermissionRefused(LakewrightError):
    """The folder or bucket does not allow what was asked."""


class CorruptFile(LakewrightError):
    """A metadata, manifest or data file that is missing or cannot be read."""


class ShardError(LakewrightError):
    """Base of what can go wrong with sharded snapshots. `url` names the snapshot's place, `shard_id` the shard, where one is known."""

    def __init__(self, message: str, *, url: str | None = None, shard_id: int | None = None) -> None:
        super().__init__(message)
        self.url = url
        self.shard_id = shard_id


class InvalidRouting(ShardError):
    """A routing that cannot work: a number of shards below 1, an expression that does not compile, a token or result out of range."""


class InvalidShardKey(ShardError):
    """A key that is null, of a type that cannot be a key, or of another type than the snapshot's keys."""


class DuplicateShardKey(ShardError):
    """A key that comes twice where nothing says which of the rows is the last."""


class ValueTooLarge(ShardError):
    """A value above what the backend can hold."""


class InvalidShardValue(ShardError):
    """A value that is null, or cannot be encoded or decoded with the snapshot's codec."""


class ShardAssignmentError(ShardError):
    """Rows that lie in another shard than the routing sends their key to."""


class ShardWriteError(ShardError):
    """A task could not write its shard. `attempt`, `rows_written` and `trace` tell how far it came."""

    def __init__(self, message: str, *, shard_id: int, attempt: int, url: str, rows_written: int, trace: str) -> None:
        super().__init__(message, url=url, shard_id=shard_id)
        self.attempt = attempt
        self.rows_written = rows_written
        self.trace = trace


class MissingShards(ShardError):
    """A build that ended without a result for every shard. `missing` names them."""

    def __init__(self, message: str, *, missing: tuple[int, ...], url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.missing = missing


class PublishManifestError(ShardError):
    """The manifest could not be stored; readers see what they saw before."""


class PublishCurrentError(PublishManifestError):
    """The manifest is stored at `manifest_ref`, but the pointer to it could not be moved; readers see what they saw before."""

    def __init__(self, message: str, *, manifest_ref: str, url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.manifest_ref = manifest_ref


class CurrentMoved(ShardError):
    """Another publisher moved the pointer meanwhile; its snapshot stays."""

    def __init__(self, message: str, *, manifest_ref: str | None = None, url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.manifest_ref = manifest_ref


class SnapshotNotFound(ShardError):
    """No snapshot is published at this place, or not the one asked for."""


class CorruptSnapshot(ShardError):
    """A pointer, manifest or shard that is missing, cut or changed."""


class UnsupportedSnapshot(ShardError):
    """A snapshot with a format version, routing, backend or codec this version does not know."""


class ShardStoreError(ShardError):
    """The store below a snapshot did not answer, or refused."""


class StoreConflict(ShardStoreError):
    """An object changed, or was made, since it was looked at; nothing was changed."""


class ObjectMissing(ShardStoreError):
    """An object that is not in the store."""


class ReaderClosed(ShardError):
    """A reader that was used after it was closed."""
