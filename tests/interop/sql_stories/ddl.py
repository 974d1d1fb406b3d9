"""The page spark-ddl: tables, columns, properties, partition fields, write orders, identifier fields, branches and tags."""

from __future__ import annotations

SCRIPTS = {
    "create_plain": """
CREATE TABLE create_plain.t (id bigint COMMENT 'unique id', data string) USING iceberg;
CREATE TABLE create_plain.t (id bigint) USING iceberg;
CREATE TABLE IF NOT EXISTS create_plain.t (other int) USING iceberg;
INSERT INTO create_plain.t VALUES (1, 'a');
CREATE TABLE create_plain.typed (
  b boolean, i int, l bigint, f float, d double, m decimal(9, 2), day date, at timestamp, local timestamp_ntz, s string, raw binary,
  list array<int>, named map<string, double>, point struct<x: double, y: double COMMENT 'up'>
) USING iceberg COMMENT 'all types' TBLPROPERTIES ('format-version' = '2');
SELECT * FROM create_plain.typed;
INSERT INTO create_plain.typed SELECT true, 1, 2L, 1.5F, 2.5D, 3.25, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00:00', TIMESTAMP_NTZ '2024-02-29 12:00:00',
  'text', X'00ff', array(1, 2), map('k', 1.0D), named_struct('x', 1.0D, 'y', 2.0D);
SELECT * FROM create_plain.typed;
SELECT point.x, list[0], named['k'] AS of_k FROM create_plain.typed;
CREATE TABLE create_plain.small (a tinyint, b smallint) USING iceberg;
CREATE TABLE create_plain.texts (a varchar(3), b char(3)) USING iceberg;
CREATE TABLE create_plain.span (a interval day to second) USING iceberg;
CREATE TABLE create_plain.twice (a int, A int) USING iceberg;
CREATE TABLE create_plain.strict (id bigint NOT NULL, point struct<x: double NOT NULL, y: double>) USING iceberg;
SELECT * FROM create_plain.strict;
INSERT INTO create_plain.strict VALUES (NULL, NULL);
INSERT INTO create_plain.strict VALUES (1, named_struct('x', 1.0D, 'y', NULL));
SELECT * FROM create_plain.strict;
CREATE TABLE nowhere.t (id int) USING iceberg;
SELECT * FROM nowhere.t;
CREATE TABLE create_plain.listed (id int) USING iceberg AS SELECT 1;
SELECT * FROM create_plain.missing;
""",
    "create_partitioned": """
CREATE TABLE create_partitioned.t (id bigint, data string, category string, ts timestamp) USING iceberg PARTITIONED BY (bucket(16, id), days(ts), category);
INSERT INTO create_partitioned.t VALUES (1, 'a', 'x', TIMESTAMP '2024-01-01 10:00:00'), (2, 'b', NULL, NULL);
SELECT * FROM create_partitioned.t WHERE ts >= TIMESTAMP '2024-01-01' AND category = 'x';
CREATE TABLE create_partitioned.t2 (id bigint, ts timestamp, day date) USING iceberg PARTITIONED BY (years(ts), truncate(10, id), months(day));
INSERT INTO create_partitioned.t2 VALUES (11, TIMESTAMP '2023-05-05 05:05:05', DATE '2023-05-05'), (-11, TIMESTAMP '1969-05-05 05:05:05', DATE '1969-05-05');
SELECT * FROM create_partitioned.t2 WHERE day < DATE '2000-01-01';
CREATE TABLE create_partitioned.t3 (id bigint, ts timestamp) USING iceberg PARTITIONED BY (hours(ts));
CREATE TABLE create_partitioned.bad (id bigint) USING iceberg PARTITIONED BY (missing);
CREATE TABLE create_partitioned.bad (id bigint) USING iceberg PARTITIONED BY (days(id));
CREATE TABLE create_partitioned.bad (id bigint, list array<int>) USING iceberg PARTITIONED BY (list);
CREATE TABLE create_partitioned.hive_style (id bigint) USING iceberg PARTITIONED BY (day date);
SELECT * FROM create_partitioned.hive_style;
""",
    "create_as": """
CREATE TABLE create_as.t USING iceberg AS SELECT id, concat('n', id) AS name FROM range(3);
CREATE TABLE create_as.parts USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('key' = 'value') AS SELECT id, id % 2 AS part FROM create_as.t;
SELECT * FROM create_as.parts;
SHOW TBLPROPERTIES create_as.parts ('key');
CREATE TABLE create_as.t USING iceberg AS SELECT 1 AS id;
CREATE TABLE IF NOT EXISTS create_as.t USING iceberg AS SELECT 1 AS other;
REPLACE TABLE create_as.t USING iceberg AS SELECT id * 10 AS id, 'r' AS word FROM range(2);
REPLACE TABLE create_as.t USING iceberg PARTITIONED BY (word) AS SELECT id, word, 1.5 AS price FROM create_as.t;
REPLACE TABLE create_as.missing USING iceberg AS SELECT 1 AS id;
CREATE OR REPLACE TABLE create_as.t USING iceberg AS SELECT 'fresh' AS only;
CREATE OR REPLACE TABLE create_as.t (id int, name string) USING iceberg;
INSERT INTO create_as.t VALUES (1, 'one');
CREATE OR REPLACE TABLE create_as.new USING iceberg AS SELECT 1 AS id, CAST(NULL AS string) AS nothing;
SELECT * FROM create_as.new;
CREATE TABLE create_as.bad USING iceberg AS SELECT * FROM create_as.missing;
CREATE TABLE create_as.bad USING iceberg AS SELECT 1 AS a, 2 AS a;
""",
    "drop_and_rename": """
CREATE TABLE drop_and_rename.t (id int) USING iceberg;
INSERT INTO drop_and_rename.t VALUES (1);
ALTER TABLE drop_and_rename.t RENAME TO drop_and_rename.renamed;
SELECT * FROM drop_and_rename.renamed;
SELECT * FROM drop_and_rename.t;
ALTER TABLE drop_and_rename.missing RENAME TO drop_and_rename.other;
CREATE TABLE drop_and_rename.t (id string) USING iceberg;
ALTER TABLE drop_and_rename.t RENAME TO drop_and_rename.renamed;
DROP TABLE drop_and_rename.renamed PURGE;
SELECT * FROM drop_and_rename.renamed;
DROP TABLE drop_and_rename.renamed;
DROP TABLE IF EXISTS drop_and_rename.renamed;
DROP TABLE drop_and_rename.t;
CREATE NAMESPACE drop_and_rename;
CREATE NAMESPACE IF NOT EXISTS drop_and_rename;
CREATE TABLE drop_and_rename.last (id int) USING iceberg;
SHOW TABLES IN drop_and_rename;
DROP NAMESPACE drop_and_rename;
DROP TABLE drop_and_rename.last;
DROP NAMESPACE drop_and_rename;
DROP NAMESPACE drop_and_rename;
DROP NAMESPACE IF EXISTS drop_and_rename;
""",
    "properties": """
CREATE TABLE properties.t (id int) USING iceberg TBLPROPERTIES ('read.split.target-size' = '268435456');
ALTER TABLE properties.t SET TBLPROPERTIES ('my.key' = 'one', 'my.other' = 'two');
SHOW TBLPROPERTIES properties.t ('my.key');
SHOW TBLPROPERTIES properties.t ('read.split.target-size');
ALTER TABLE properties.t SET TBLPROPERTIES ('my.key' = 'changed');
SHOW TBLPROPERTIES properties.t ('my.key');
ALTER TABLE properties.t UNSET TBLPROPERTIES ('my.key');
ALTER TABLE properties.t UNSET TBLPROPERTIES IF EXISTS ('never.set');
ALTER TABLE properties.t SET TBLPROPERTIES ('comment' = 'A table comment.');
ALTER TABLE properties.t SET TBLPROPERTIES ('format-version' = '3');
ALTER TABLE properties.t SET TBLPROPERTIES ('format-version' = '2');
ALTER TABLE properties.t SET TBLPROPERTIES ('format-version' = '9');
ALTER TABLE properties.missing SET TBLPROPERTIES ('a' = 'b');
""",
    "columns": """
CREATE TABLE columns.t (id int, name string, price decimal(5, 2), ratio float) USING iceberg;
INSERT INTO columns.t VALUES (1, 'a', 1.25, 0.5);
ALTER TABLE columns.t ADD COLUMNS (note string COMMENT 'a note');
ALTER TABLE columns.t ADD COLUMN first_of_all bigint FIRST;
ALTER TABLE columns.t ADD COLUMN middle bigint AFTER id;
ALTER TABLE columns.t ADD COLUMNS (x int, y int AFTER x);
INSERT INTO columns.t VALUES (0, 2, 22, 'b', 2.5, 1.5, 'noted', 7, 8);
ALTER TABLE columns.t ADD COLUMN name string;
ALTER TABLE columns.t ADD COLUMN lost int AFTER missing;
ALTER TABLE columns.t RENAME COLUMN name TO title;
ALTER TABLE columns.t RENAME COLUMN missing TO found;
ALTER TABLE columns.t RENAME COLUMN title TO id;
ALTER TABLE columns.t ALTER COLUMN id TYPE bigint;
ALTER TABLE columns.t ALTER COLUMN ratio TYPE double;
ALTER TABLE columns.t ALTER COLUMN price TYPE decimal(9, 2);
ALTER TABLE columns.t ALTER COLUMN id TYPE int;
ALTER TABLE columns.t ALTER COLUMN price TYPE decimal(9, 3);
ALTER TABLE columns.t ALTER COLUMN title TYPE int;
ALTER TABLE columns.t ALTER COLUMN id COMMENT 'the id';
ALTER TABLE columns.t ALTER COLUMN note FIRST;
ALTER TABLE columns.t ALTER COLUMN note AFTER title;
ALTER TABLE columns.t ALTER COLUMN note AFTER missing;
ALTER TABLE columns.t DROP COLUMN first_of_all;
ALTER TABLE columns.t DROP COLUMNS (x, y);
ALTER TABLE columns.t DROP COLUMN missing;
ALTER TABLE columns.t DROP COLUMN IF EXISTS missing;
ALTER TABLE columns.t ADD COLUMN first_of_all string;
INSERT INTO columns.t VALUES (5000000000, 33, 'c', 'n', 12345.25, 1e300, 'back');
ALTER TABLE columns.t ADD COLUMN must int NOT NULL;
ALTER TABLE columns.t ALTER COLUMN title SET NOT NULL;
ALTER TABLE columns.t RENAME COLUMN id TO `two words`;
SELECT `two words`, title FROM columns.t WHERE `two words` > 1;
""",
    "nullability": """
CREATE TABLE nullability.t (id bigint NOT NULL, name string NOT NULL, part int NOT NULL) USING iceberg;
INSERT INTO nullability.t VALUES (1, NULL, 1);
INSERT INTO nullability.t VALUES (1, 'a', 1);
UPDATE nullability.t SET name = NULL;
ALTER TABLE nullability.t ALTER COLUMN name DROP NOT NULL;
UPDATE nullability.t SET name = NULL;
ALTER TABLE nullability.t ALTER COLUMN name SET NOT NULL;
INSERT INTO nullability.t (id, name) VALUES (2, 'b');
MERGE INTO nullability.t t USING (SELECT 5 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, name, part) VALUES (s.id, NULL, NULL);
""",
    "nested_columns": """
CREATE TABLE nested_columns.t (id int, point struct<x: double>, points array<struct<a: int>>, named map<string, struct<b: int>>) USING iceberg;
INSERT INTO nested_columns.t VALUES (1, named_struct('x', 1.0D), array(named_struct('a', 1)), map('k', named_struct('b', 1)));
ALTER TABLE nested_columns.t ADD COLUMN point.z double;
ALTER TABLE nested_columns.t ADD COLUMN point.y double AFTER x;
ALTER TABLE nested_columns.t ADD COLUMN points.element.z double;
ALTER TABLE nested_columns.t ADD COLUMN named.value.c string;
INSERT INTO nested_columns.t VALUES (2, named_struct('x', 2.0D, 'y', 3.0D, 'z', 4.0D), array(named_struct('a', 2, 'z', 5.0D)), map('l', named_struct('b', 2, 'c', 'c')));
ALTER TABLE nested_columns.t RENAME COLUMN point.x TO east;
ALTER TABLE nested_columns.t ALTER COLUMN points.element.a TYPE bigint;
ALTER TABLE nested_columns.t ALTER COLUMN point.z FIRST;
ALTER TABLE nested_columns.t ALTER COLUMN point.z COMMENT 'height';
ALTER TABLE nested_columns.t DROP COLUMN named.value.b;
ALTER TABLE nested_columns.t DROP COLUMN point.missing;
ALTER TABLE nested_columns.t ADD COLUMN id.part int;
ALTER TABLE nested_columns.t ADD COLUMN named.key.c int;
SELECT point.z + 0 AS z, points[0].a AS a, named['l'].c AS c FROM nested_columns.t WHERE point.east > 1;
UPDATE nested_columns.t SET point.z = 9.0D WHERE id = 1;
""",
    "partition_fields": """
CREATE TABLE partition_fields.t (id bigint, data string, category string, ts timestamp) USING iceberg;
INSERT INTO partition_fields.t VALUES (1, 'aaa', 'x', TIMESTAMP '2024-01-01 10:00:00');
ALTER TABLE partition_fields.t ADD PARTITION FIELD category;
ALTER TABLE partition_fields.t ADD PARTITION FIELD bucket(16, id);
ALTER TABLE partition_fields.t ADD PARTITION FIELD truncate(4, data);
ALTER TABLE partition_fields.t ADD PARTITION FIELD years(ts);
ALTER TABLE partition_fields.t ADD PARTITION FIELD bucket(8, data) AS shard;
INSERT INTO partition_fields.t VALUES (2, 'bbbbbb', 'y', TIMESTAMP '2024-02-02 10:00:00');
ALTER TABLE partition_fields.t DROP PARTITION FIELD category;
ALTER TABLE partition_fields.t DROP PARTITION FIELD bucket(16, id);
ALTER TABLE partition_fields.t DROP PARTITION FIELD truncate(4, data);
ALTER TABLE partition_fields.t DROP PARTITION FIELD shard;
ALTER TABLE partition_fields.t REPLACE PARTITION FIELD ts_year WITH days(ts);
ALTER TABLE partition_fields.t REPLACE PARTITION FIELD days(ts) WITH hours(ts) AS hour_of_ts;
INSERT INTO partition_fields.t VALUES (3, 'c', 'z', TIMESTAMP '2024-03-03 10:00:00');
ALTER TABLE partition_fields.t ADD PARTITION FIELD missing;
ALTER TABLE partition_fields.t DROP PARTITION FIELD missing;
ALTER TABLE partition_fields.t ADD PARTITION FIELD hours(ts);
ALTER TABLE partition_fields.t ADD PARTITION FIELD days(id);
ALTER TABLE partition_fields.t DROP COLUMN ts;
SELECT id FROM partition_fields.t WHERE ts > TIMESTAMP '2024-02-01' AND category <> 'z';
""",
    "write_orders": """
CREATE TABLE write_orders.t (id bigint, category string, note string) USING iceberg PARTITIONED BY (category);
ALTER TABLE write_orders.t WRITE ORDERED BY category, id;
SHOW TBLPROPERTIES write_orders.t ('write.distribution-mode');
ALTER TABLE write_orders.t WRITE ORDERED BY category ASC, id DESC;
ALTER TABLE write_orders.t WRITE ORDERED BY category ASC NULLS LAST, id DESC NULLS FIRST;
ALTER TABLE write_orders.t WRITE ORDERED BY bucket(4, id), truncate(2, note);
ALTER TABLE write_orders.t WRITE LOCALLY ORDERED BY category, id;
SHOW TBLPROPERTIES write_orders.t ('write.distribution-mode');
INSERT INTO write_orders.t VALUES (2, 'a', 'x'), (1, 'a', 'y'), (3, 'b', 'z');
ALTER TABLE write_orders.t WRITE DISTRIBUTED BY PARTITION;
SHOW TBLPROPERTIES write_orders.t ('write.distribution-mode');
ALTER TABLE write_orders.t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id;
ALTER TABLE write_orders.t WRITE UNORDERED;
SHOW TBLPROPERTIES write_orders.t ('write.distribution-mode');
ALTER TABLE write_orders.t WRITE ORDERED BY missing;
""",
    "identifier_fields": """
CREATE TABLE identifier_fields.t (id bigint NOT NULL, data string NOT NULL, note string, score double NOT NULL) USING iceberg;
ALTER TABLE identifier_fields.t SET IDENTIFIER FIELDS id;
ALTER TABLE identifier_fields.t SET IDENTIFIER FIELDS id, data;
ALTER TABLE identifier_fields.t DROP IDENTIFIER FIELDS id;
ALTER TABLE identifier_fields.t DROP IDENTIFIER FIELDS id;
ALTER TABLE identifier_fields.t SET IDENTIFIER FIELDS note;
ALTER TABLE identifier_fields.t SET IDENTIFIER FIELDS missing;
ALTER TABLE identifier_fields.t SET IDENTIFIER FIELDS score;
ALTER TABLE identifier_fields.t DROP COLUMN data;
ALTER TABLE identifier_fields.t DROP IDENTIFIER FIELDS data;
ALTER TABLE identifier_fields.t DROP COLUMN data;
""",
    "branches_and_tags": """
CREATE TABLE branches_and_tags.t (id int) USING iceberg;
ALTER TABLE branches_and_tags.t CREATE TAG too_early;
INSERT INTO branches_and_tags.t VALUES (1);
INSERT INTO branches_and_tags.t VALUES (2);
ALTER TABLE branches_and_tags.t CREATE BRANCH audit;
ALTER TABLE branches_and_tags.t CREATE BRANCH audit;
ALTER TABLE branches_and_tags.t CREATE BRANCH IF NOT EXISTS audit RETAIN 3 DAYS;
ALTER TABLE branches_and_tags.t CREATE OR REPLACE BRANCH audit AS OF VERSION {snapshot[0]} RETAIN 30 DAYS;
SELECT * FROM branches_and_tags.t VERSION AS OF 'audit';
ALTER TABLE branches_and_tags.t CREATE BRANCH kept AS OF VERSION {snapshot[1]} RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS;
ALTER TABLE branches_and_tags.t CREATE BRANCH kept_some WITH SNAPSHOT RETENTION 5 SNAPSHOTS;
ALTER TABLE branches_and_tags.t CREATE BRANCH kept_days WITH SNAPSHOT RETENTION 2 HOURS;
ALTER TABLE branches_and_tags.t CREATE TAG historical AS OF VERSION {snapshot[0]} RETAIN 60 MINUTES;
ALTER TABLE branches_and_tags.t CREATE TAG IF NOT EXISTS historical;
ALTER TABLE branches_and_tags.t CREATE TAG `quoted-tag`;
ALTER TABLE branches_and_tags.t CREATE TAG historical;
ALTER TABLE branches_and_tags.t CREATE TAG unknown AS OF VERSION 1;
SELECT * FROM branches_and_tags.t VERSION AS OF 'historical';
ALTER TABLE branches_and_tags.t REPLACE TAG historical AS OF VERSION {snapshot[1]} RETAIN 2 DAYS;
ALTER TABLE branches_and_tags.t REPLACE BRANCH audit AS OF VERSION {snapshot[1]};
ALTER TABLE branches_and_tags.t REPLACE BRANCH missing AS OF VERSION {snapshot[1]};
ALTER TABLE branches_and_tags.t REPLACE TAG missing AS OF VERSION {snapshot[1]};
INSERT INTO branches_and_tags.t.branch_audit VALUES (3);
SELECT * FROM branches_and_tags.t.branch_audit;
UPDATE branches_and_tags.t.branch_audit SET id = id + 100 WHERE id = 3;
DELETE FROM branches_and_tags.t.branch_audit WHERE id = 1;
MERGE INTO branches_and_tags.t.branch_audit t USING (SELECT 103 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 203;
SELECT * FROM branches_and_tags.t VERSION AS OF 'audit';
INSERT INTO branches_and_tags.t.branch_missing VALUES (3);
INSERT INTO branches_and_tags.t.tag_historical VALUES (3);
SELECT * FROM branches_and_tags.t.tag_historical;
SELECT name, lower(type) AS type, max_reference_age_in_ms, min_snapshots_to_keep, max_snapshot_age_in_ms FROM branches_and_tags.t.refs;
ALTER TABLE branches_and_tags.t DROP TAG audit;
ALTER TABLE branches_and_tags.t DROP BRANCH audit;
ALTER TABLE branches_and_tags.t DROP BRANCH audit;
ALTER TABLE branches_and_tags.t DROP BRANCH IF EXISTS audit;
ALTER TABLE branches_and_tags.t DROP TAG historical;
ALTER TABLE branches_and_tags.t DROP TAG IF EXISTS historical;
ALTER TABLE branches_and_tags.t DROP BRANCH main;
SELECT name FROM branches_and_tags.t.refs;
""",
    "looks": """
CREATE TABLE looks.t (id bigint COMMENT 'the id', name string, point struct<x: int>) USING iceberg;
DESCRIBE looks.t;
DESCRIBE TABLE looks.missing;
SHOW COLUMNS IN looks.t;
SHOW TABLES IN looks;
SHOW TABLES IN looks LIKE 't*';
SHOW TABLES IN looks LIKE 'x*';
CREATE TABLE looks.parted (id bigint, ts timestamp) USING iceberg PARTITIONED BY (days(ts), bucket(4, id));
DESCRIBE looks.parted;
SHOW TBLPROPERTIES looks.t ('format-version');
""",
}
