"""The page spark-writes: inserts, overwrites, deletes, updates, merges and truncates."""

from __future__ import annotations

INSERTS = {
    "inserts": """
CREATE TABLE inserts.t (id bigint, data string, at date) USING iceberg TBLPROPERTIES ('format-version' = '{version}');
INSERT INTO inserts.t VALUES (1, 'a', DATE '2024-01-01'), (2, 'b', NULL);
INSERT INTO TABLE inserts.t SELECT id + 10, upper(data), at FROM inserts.t;
INSERT INTO inserts.t (data, id) VALUES ('named', 3);
INSERT INTO inserts.t (id, data, at) SELECT 4, 'four', current_date() WHERE false;
INSERT INTO inserts.t BY NAME SELECT 'by name' AS data, 5 AS id;
INSERT INTO inserts.t BY NAME SELECT DATE '2024-05-05' AS at, 'all' AS data, 6L AS id;
INSERT INTO inserts.t BY NAME SELECT 7 AS id, 'x' AS unknown;
INSERT INTO inserts.t TABLE inserts.t;
INSERT INTO inserts.t WITH few AS (SELECT max(id) AS id FROM inserts.t) SELECT id + 1, 'from a cte', NULL FROM few;
INSERT INTO inserts.t SELECT 1, 'two columns';
INSERT INTO inserts.t SELECT 1, 'four', NULL, 'columns';
INSERT INTO inserts.t (id, missing) VALUES (1, 2);
INSERT INTO inserts.t (id, id) VALUES (1, 2);
INSERT INTO inserts.t (id, data) VALUES (1, 'a', NULL);
INSERT INTO inserts.missing VALUES (1);
INSERT INTO inserts.t SELECT missing, 'a', NULL FROM inserts.t;
SELECT count(*), sum(id) FROM inserts.t;
""",
    "assignment": """
CREATE TABLE assignment.t (i int, l bigint, d double, m decimal(5, 2), s string, day date, b boolean, f float) USING iceberg TBLPROPERTIES ('format-version' = '{version}');
INSERT INTO assignment.t (l) VALUES (1);
INSERT INTO assignment.t (d) VALUES (1.5);
INSERT INTO assignment.t (d) VALUES (3);
INSERT INTO assignment.t (s) VALUES (42);
INSERT INTO assignment.t (s) VALUES (DATE '2024-01-01');
INSERT INTO assignment.t (i) VALUES (7L);
INSERT INTO assignment.t (i) VALUES (3000000000);
INSERT INTO assignment.t (i) VALUES (1.9D);
INSERT INTO assignment.t (i) VALUES ('12');
INSERT INTO assignment.t (l) SELECT cast('5' AS string);
INSERT INTO assignment.t (m) VALUES (1.256);
INSERT INTO assignment.t (m) VALUES (123456);
INSERT INTO assignment.t (m) VALUES (12.5D);
INSERT INTO assignment.t (day) VALUES (TIMESTAMP '2024-01-01 23:59:59');
INSERT INTO assignment.t (day) VALUES ('2024-01-01');
INSERT INTO assignment.t (b) VALUES (1);
INSERT INTO assignment.t (i) VALUES (true);
INSERT INTO assignment.t (f) VALUES (1.1D);
INSERT INTO assignment.t (i) VALUES (NULL);
UPDATE assignment.t SET l = 5 WHERE l = 1;
UPDATE assignment.t SET i = 3000000000L WHERE l = 5;
UPDATE assignment.t SET i = 'text' WHERE l = 5;
UPDATE assignment.t SET s = 17 WHERE l = 5;
MERGE INTO assignment.t t USING (SELECT 5 AS l, 2.25D AS m) s ON t.l = s.l WHEN MATCHED THEN UPDATE SET t.m = s.m;
MERGE INTO assignment.t t USING (SELECT 5 AS l, 'text' AS m) s ON t.l = s.l WHEN MATCHED THEN UPDATE SET t.m = s.m;
""",
    "nested_inserts": """
CREATE TABLE nested_inserts.t (id int, point struct<x: double, y: bigint>, list array<bigint>, named map<string, double>) USING iceberg TBLPROPERTIES ('format-version' = '{version}');
INSERT INTO nested_inserts.t VALUES (1, named_struct('x', 1.0D, 'y', 2L), array(1L), map('a', 1.0D));
INSERT INTO nested_inserts.t VALUES (2, named_struct('x', 1, 'y', 2), array(1, NULL), map('a', 1));
INSERT INTO nested_inserts.t VALUES (3, NULL, NULL, NULL);
INSERT INTO nested_inserts.t VALUES (4, named_struct('x', 1.0D), array(), map());
INSERT INTO nested_inserts.t VALUES (5, named_struct('x', 'text', 'y', 2), array(), map());
INSERT INTO nested_inserts.t SELECT 6, named_struct('p', 5.0D, 'q', 6), array(), map();
INSERT INTO nested_inserts.t SELECT 16, named_struct('y', 5, 'x', 6), NULL, NULL;
INSERT INTO nested_inserts.t (id, point) SELECT 17, named_struct('y', 5, 'x', 6);
INSERT INTO nested_inserts.t SELECT 18, named_struct('x', 5, 'y', 6, 'z', 7), NULL, NULL;
INSERT INTO nested_inserts.t BY NAME SELECT 20 AS id, named_struct('x', 6.0D, 'y', 7L, 'z', 8) AS point;
INSERT INTO nested_inserts.t BY NAME SELECT 7 AS id, named_struct('y', 5L, 'x', 6.0D) AS point;
UPDATE nested_inserts.t SET point = named_struct('x', 0.0D, 'y', 0L), list = array(9L) WHERE id = 3;
UPDATE nested_inserts.t SET point.y = point.y + 1 WHERE point.y IS NOT NULL;
DELETE FROM nested_inserts.t WHERE point.x = 0.0 OR size(list) = 2;
MERGE INTO nested_inserts.t t USING (SELECT 1 AS id, 70L AS y) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.point.y = s.y;
""",
    "overwrites": """
CREATE TABLE overwrites.t (id bigint, level string, day date) USING iceberg PARTITIONED BY (level, day) TBLPROPERTIES ('format-version' = '{version}');
INSERT INTO overwrites.t VALUES (1, 'info', DATE '2024-01-01'), (2, 'warn', DATE '2024-01-01'), (3, 'info', DATE '2024-01-02'), (4, NULL, NULL);
INSERT OVERWRITE overwrites.t PARTITION (level = 'info') SELECT id * 10, day FROM overwrites.t WHERE level = 'info' AND id = 1;
INSERT OVERWRITE overwrites.t PARTITION (level = 'warn', day = DATE '2024-01-01') SELECT 22;
INSERT OVERWRITE overwrites.t PARTITION (level = 'info', day) SELECT 30, DATE '2024-01-03';
INSERT INTO overwrites.t PARTITION (level = 'debug') SELECT 40, DATE '2024-01-04';
INSERT INTO overwrites.t PARTITION (level, day) SELECT 50, 'trace', DATE '2024-01-05';
INSERT INTO overwrites.t REPLACE WHERE level = 'debug' SELECT 41, 'debug', DATE '2024-01-04';
INSERT OVERWRITE overwrites.t PARTITION (missing = 1) SELECT 1, 'a', NULL;
INSERT OVERWRITE overwrites.t PARTITION (id = 1) SELECT 'a', NULL;
SET spark.sql.sources.partitionOverwriteMode = dynamic;
INSERT OVERWRITE overwrites.t SELECT 60, 'trace', DATE '2024-01-05';
INSERT OVERWRITE overwrites.t SELECT 70, CAST(NULL AS string), CAST(NULL AS date);
INSERT OVERWRITE overwrites.t PARTITION (level = 'debug') SELECT 80, DATE '2024-01-08';
INSERT OVERWRITE overwrites.t SELECT * FROM overwrites.t WHERE false;
SET spark.sql.sources.partitionOverwriteMode = static;
INSERT OVERWRITE overwrites.t (day, id, level) VALUES (DATE '2025-01-01', 90, 'last');
INSERT OVERWRITE TABLE overwrites.t SELECT 100, 'all', NULL;
INSERT OVERWRITE overwrites.t SELECT * FROM overwrites.t WHERE false;
CREATE TABLE overwrites.hidden (id bigint, ts timestamp) USING iceberg PARTITIONED BY (days(ts)) TBLPROPERTIES ('format-version' = '{version}');
INSERT INTO overwrites.hidden VALUES (1, TIMESTAMP '2024-01-01 01:00:00'), (2, TIMESTAMP '2024-01-01 02:00:00'), (3, TIMESTAMP '2024-01-02 01:00:00');
SET spark.sql.sources.partitionOverwriteMode = dynamic;
INSERT OVERWRITE overwrites.hidden SELECT 4, TIMESTAMP '2024-01-01 05:00:00';
SELECT * FROM overwrites.hidden;
SET spark.sql.sources.partitionOverwriteMode = static;
INSERT OVERWRITE overwrites.hidden PARTITION (ts = TIMESTAMP '2024-01-01 05:00:00') SELECT 5;
TRUNCATE TABLE overwrites.hidden;
SELECT * FROM overwrites.hidden;
""",
}
CHANGES = {
    "deletes": """
CREATE TABLE deletes.t (id bigint, level string, score double) USING iceberg PARTITIONED BY (level) TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read');
INSERT INTO deletes.t SELECT id, if(id % 4 = 3, NULL, concat('l', id % 4)), if(id % 5 = 0, NULL, id / 2) FROM range(40);
CREATE TABLE deletes.gone (id bigint) USING iceberg;
INSERT INTO deletes.gone VALUES (20), (21), (NULL);
DELETE FROM deletes.t WHERE id = 1;
DELETE FROM deletes.t WHERE id IN (2, 3) AND score > 0;
DELETE FROM deletes.t AS d WHERE d.id = 4;
DELETE FROM deletes.t WHERE deletes.t.id = 5;
DELETE FROM deletes.t WHERE score <> 3;
DELETE FROM deletes.t WHERE score = NULL;
DELETE FROM deletes.t WHERE NOT (level = 'l0' OR score IS NOT NULL OR level <=> NULL);
INSERT INTO deletes.t SELECT id, concat('l', id % 4), 1.0D FROM range(40, 60);
DELETE FROM deletes.t WHERE id IN (SELECT id + 20 FROM deletes.gone);
DELETE FROM deletes.t WHERE EXISTS (SELECT 1 FROM deletes.gone g WHERE g.id + 22 = deletes.t.id);
DELETE FROM deletes.t WHERE id > (SELECT max(id) + 35 FROM deletes.gone);
DELETE FROM deletes.t WHERE id NOT IN (SELECT id FROM deletes.gone);
DELETE FROM deletes.t d WHERE NOT EXISTS (SELECT 1 FROM deletes.t o WHERE o.id = d.id + 1);
DELETE FROM deletes.t WHERE level = 'l1';
DELETE FROM deletes.t WHERE missing = 1;
DELETE FROM deletes.t WHERE id;
DELETE FROM deletes.t WHERE rand() < 2 AND count(*) > 1;
DELETE FROM deletes.t WHERE level LIKE 'l%' AND id BETWEEN 40 AND 47;
DELETE FROM deletes.missing WHERE id = 1;
TRUNCATE TABLE deletes.t;
TRUNCATE TABLE deletes.missing;
INSERT INTO deletes.t VALUES (1, 'a', 1.0D);
DELETE FROM deletes.t;
""",
    "updates": """
CREATE TABLE updates.t (id bigint, name string, price decimal(9, 2), tags array<string>) USING iceberg TBLPROPERTIES ('format-version' = '{version}', 'write.update.mode' = 'merge-on-read');
INSERT INTO updates.t SELECT id, if(id = 3, NULL, concat('n', id)), id * 1.5, array('t') FROM range(8);
UPDATE updates.t SET name = 'one' WHERE id = 1;
UPDATE updates.t SET name = upper(name), price = price + id WHERE id < 3;
UPDATE updates.t AS u SET u.name = concat(u.name, '!') WHERE u.id >= 6;
UPDATE updates.t SET id = id + 100, price = id WHERE id = 5;
UPDATE updates.t SET price = NULL WHERE name IS NULL;
UPDATE updates.t SET price = 0 WHERE price = NULL;
UPDATE updates.t SET tags = array('x', name) WHERE id = 4;
UPDATE updates.t SET name = CASE WHEN id > 4 THEN 'big' ELSE 'small' END;
UPDATE updates.t SET name = 'max' WHERE id = (SELECT max(id) FROM updates.t);
UPDATE updates.t SET name = 'listed' WHERE id IN (SELECT id FROM range(2));
UPDATE updates.t SET name = (SELECT min(name) FROM updates.t) WHERE id = 2;
UPDATE updates.t SET missing = 1;
UPDATE updates.t SET name = 'a', name = 'b';
UPDATE updates.t SET name = missing WHERE id = 1;
UPDATE updates.t SET price = price * 10000000 WHERE id = 7;
UPDATE updates.t SET name = 'none' WHERE id < 0;
UPDATE updates.missing SET id = 1;
UPDATE updates.t SET tags = 'text' WHERE id = 4;
""",
    "merges": """
CREATE TABLE merges.t (id bigint, name string, amount int) USING iceberg TBLPROPERTIES ('format-version' = '{version}', 'write.merge.mode' = 'merge-on-read');
INSERT INTO merges.t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30), (4, NULL, NULL), (NULL, 'no id', 0);
CREATE TABLE merges.s (id bigint, name string, amount int) USING iceberg;
INSERT INTO merges.s VALUES (1, 'A', 1), (2, 'delete', NULL), (5, 'E', 5), (NULL, 'null in source', 9);
MERGE INTO merges.t t USING merges.s s ON t.id = s.id WHEN MATCHED AND s.name = 'delete' THEN DELETE WHEN MATCHED THEN UPDATE SET t.amount = t.amount + s.amount WHEN NOT MATCHED THEN INSERT *;
MERGE INTO merges.t USING merges.s ON merges.t.id = merges.s.id WHEN MATCHED THEN UPDATE SET *;
MERGE INTO merges.t t USING (SELECT * FROM merges.s WHERE id IS NOT NULL) s ON t.id = s.id AND t.amount < 100 WHEN NOT MATCHED AND s.id > 4 THEN INSERT (id, amount) VALUES (s.id + 100, 7) WHEN NOT MATCHED THEN INSERT (name, id) VALUES ('small', s.id);
MERGE INTO merges.t t USING merges.s s ON t.id <=> s.id WHEN MATCHED AND t.id IS NULL THEN UPDATE SET t.name = s.name;
MERGE INTO merges.t t USING (SELECT 3L AS id) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id > 100 THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.amount IS NULL THEN UPDATE SET t.amount = -1;
MERGE INTO merges.t t USING (VALUES (3, 'three'), (30, 'thirty')) AS s(id, word) ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.word WHEN NOT MATCHED BY TARGET THEN INSERT (id, name) VALUES (s.id, s.word);
MERGE INTO merges.t t USING (SELECT * FROM VALUES (3, 'three'), (30, 'thirty') AS v(id, word)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.word WHEN NOT MATCHED BY TARGET THEN INSERT (id, name) VALUES (s.id, s.word);
MERGE INTO merges.t t USING (SELECT 3 AS id UNION ALL SELECT 3) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'twice';
MERGE INTO merges.t t USING (SELECT 30 AS id UNION ALL SELECT 30) s ON t.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO merges.t t USING (SELECT id, max(amount) AS amount FROM merges.t GROUP BY id) s ON t.id = s.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET t.amount = s.amount * 2;
MERGE INTO merges.t t USING merges.s s ON 1 = 0 WHEN NOT MATCHED AND s.id = 5 THEN INSERT *;
MERGE INTO merges.t t USING merges.s s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.missing = 1;
MERGE INTO merges.t t USING merges.s s ON t.id = s.missing WHEN MATCHED THEN DELETE;
MERGE INTO merges.t t USING merges.s s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.name = 'a', t.name = 'b';
MERGE INTO merges.t t USING merges.s s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *;
MERGE INTO merges.t t USING merges.s s ON t.id = s.id WHEN NOT MATCHED THEN DELETE;
MERGE INTO merges.t t USING merges.s s ON t.id = s.id;
MERGE INTO merges.t t USING merges.missing s ON t.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO merges.t t USING (SELECT 1 AS id, 'only these' AS name) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *;
MERGE INTO merges.t t USING (SELECT 77 AS id, 'only these' AS name) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *;
MERGE INTO merges.t t USING (SELECT 78 AS id, 'more' AS name, 1 AS amount, 'than' AS needed) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *;
MERGE INTO merges.t t USING merges.s s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE;
MERGE WITH SCHEMA EVOLUTION INTO merges.t t USING (SELECT * FROM VALUES (5L, 'e', 1, 'new'), (50L, 'f', 2, 'too') AS v(id, name, amount, extra)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
""",
    "copy_on_write": """
CREATE TABLE copy_on_write.t (id bigint, part string, v int) USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'copy-on-write', 'write.update.mode' = 'copy-on-write', 'write.merge.mode' = 'copy-on-write');
INSERT INTO copy_on_write.t SELECT id, concat('p', id % 3), id FROM range(12);
DELETE FROM copy_on_write.t WHERE id = 4 OR part = 'p2';
UPDATE copy_on_write.t SET part = 'moved', v = -v WHERE id IN (0, 1);
MERGE INTO copy_on_write.t t USING (SELECT explode(array(6, 7, 99)) AS id) s ON t.id = s.id WHEN MATCHED AND s.id = 6 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED THEN INSERT (id, part) VALUES (s.id, 'new');
SELECT part, count(*) AS rows, sum(v) AS total FROM copy_on_write.t GROUP BY part;
""",
}
