"""Where the two sides differ on purpose. The suite runs each of these too, so that the list stays true."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Runs(Enum):
    HERE = "lake.sql runs it, the Iceberg runtime does not"
    THERE = "the Iceberg runtime runs it, lake.sql does not"
    BOTH = "both run it and answer differently"


@dataclass(frozen=True)
class Difference:
    statement: str
    runs: Runs
    why: str


SETUP = (
    "CREATE NAMESPACE differences",
    "CREATE TABLE differences.t (id bigint NOT NULL, part string, ratio float) USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('format-version' = '3')",
    "CREATE TABLE differences.nested (id bigint, point struct<x: int COMMENT 'east', y: int>) USING iceberg",
    "INSERT INTO differences.nested VALUES (0, named_struct('x', 1, 'y', 1))",
    "INSERT INTO differences.t VALUES (1, 'a', NULL), (2, 'b', NULL)",
    "DELETE FROM differences.t WHERE id NOT IN (SELECT CAST(NULL AS bigint))",
)

KNOWN_DIFFERENCES = (
    Difference("SELECT count(*) FROM differences.t.snapshots", Runs.BOTH, "A statement that changes no rows makes no snapshot."),
    Difference("SELECT type FROM differences.t.refs", Runs.BOTH, "Kinds of refs are written as the specification writes them, `branch` and `tag`."),
    Difference("SELECT partition FROM differences.t.files", Runs.BOTH, "Partitions are shown as text."),
    Difference("SELECT content FROM differences.t.files", Runs.BOTH, "What a file holds is shown in words."),
    Difference("CREATE TABLE differences.like_t LIKE differences.t", Runs.HERE, "CREATE TABLE LIKE is known to lake.sql alone."),
    Difference("CREATE TABLE differences.keyed (id bigint, PRIMARY KEY (id) NOT ENFORCED) USING iceberg", Runs.HERE, "PRIMARY KEY makes identifier fields."),
    Difference("CREATE TABLE differences.sorted (id bigint) USING iceberg ORDERED BY (id DESC)", Runs.HERE, "ORDERED BY makes the table's sort order."),
    Difference("CREATE TABLE differences.defaults (id int DEFAULT 5) USING iceberg TBLPROPERTIES ('format-version' = '3')", Runs.HERE, "Default values of version 3."),
    Difference("ALTER TABLE differences.t ADD COLUMN extra int DEFAULT 5", Runs.HERE, "Default values of version 3."),
    Difference("INSERT WITH SCHEMA EVOLUTION INTO differences.t BY NAME SELECT 3L AS id, 'new' AS fresh", Runs.HERE, "INSERT can add columns."),
    Difference("INSERT INTO differences.nested BY NAME SELECT 1L AS id, named_struct('x', 1) AS point", Runs.HERE, "By name, a field that a struct lacks is null, as a column that is lacking is."),
    Difference("MERGE INTO differences.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED AND t.id IN (SELECT id FROM differences.t) THEN DELETE", Runs.HERE, "Conditions of a MERGE may have queries in them."),
    Difference("MERGE INTO differences.t t USING differences.t VERSION AS OF 'main' s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.ratio = 1", Runs.HERE, "The source of a MERGE may be an earlier version of a table."),
    Difference("INSERT INTO differences.t (id) VALUES (9); DELETE FROM differences.t WHERE id = 9", Runs.HERE, "A text may hold several statements."),
    Difference("INSERT INTO differences.t (id, ratio) VALUES (7, 1e300D)", Runs.THERE, "A number too large for a float column is refused rather than made infinite."),
    Difference("INSERT INTO differences.nested SELECT 2L, named_struct('x', 1L, 'y', 2L)", Runs.THERE, "Fields inside structs, lists and maps take what fits their type without loss, as appended DataFrames do; columns take what Spark casts."),
    Difference("CREATE VIEW differences.v AS SELECT id FROM differences.t", Runs.THERE, "A lake keeps no views of its own; temporary ones see new commits."),
    Difference("CREATE NAMESPACE described COMMENT 'a comment'", Runs.THERE, "Namespaces of a lake have a name and nothing else."),
    Difference("COMMENT ON TABLE differences.t IS 'a comment'", Runs.THERE, "The comment is the property `comment`."),
    Difference("ALTER TABLE differences.t SET LOCATION '/tmp/elsewhere'", Runs.THERE, "A table stays where it was made."),
    Difference("SELECT id, _file FROM differences.t", Runs.THERE, "Metadata columns are asked for with `table.read(metadata=True)`."),
    Difference("SELECT count(*) FROM differences.t.data_files", Runs.THERE, "Of the metadata tables there are history, snapshots, files, partitions, refs, manifests, entries, runs and timeline."),
    Difference("SELECT added_data_files_count FROM differences.t.manifests", Runs.THERE, "Some columns of metadata tables have other names or types."),
    Difference("ALTER TABLE differences.nested REPLACE COLUMNS (id bigint, fresh string)", Runs.THERE, "Columns are added and dropped one by one."),
)
