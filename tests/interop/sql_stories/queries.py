"""The page spark-queries: selects, time travel and metadata tables."""

from __future__ import annotations

SCRIPTS = {
    "selects": """
CREATE TABLE selects.t (id bigint, region string, amount decimal(9, 2), at timestamp) USING iceberg PARTITIONED BY (region);
INSERT INTO selects.t SELECT id, CASE WHEN id % 5 = 0 THEN NULL WHEN id % 2 = 0 THEN 'eu' ELSE 'us' END, id * 1.25, timestamp_seconds(id * 86400) FROM range(20);
CREATE TABLE selects.regions (region string, name string) USING iceberg;
INSERT INTO selects.regions VALUES ('eu', 'Europe'), ('ap', 'Asia');
SELECT * FROM selects.t WHERE region = 'eu' AND id > 4;
SELECT region, count(*) AS n, sum(amount) AS total, max(at) AS latest FROM selects.t GROUP BY region HAVING count(*) > 1 ORDER BY n;
SELECT t.id, r.name FROM selects.t t JOIN selects.regions r ON t.region = r.region WHERE t.id < 10;
SELECT t.id, r.name FROM selects.t AS t LEFT JOIN selects.regions AS r USING (region) WHERE r.name IS NULL;
SELECT r.name, t.id FROM selects.t t FULL OUTER JOIN selects.regions r ON t.region = r.region WHERE t.id IS NULL OR t.id = 2;
SELECT selects.t.id FROM selects.t WHERE selects.t.region IS NULL;
WITH big AS (SELECT * FROM selects.t WHERE amount > 10), few AS (SELECT region FROM big GROUP BY region) SELECT count(*) AS n FROM big WHERE region IN (SELECT region FROM few);
SELECT id FROM selects.t WHERE region IN (SELECT region FROM selects.regions) AND NOT EXISTS (SELECT 1 FROM selects.t o WHERE o.id = t.id + 10);
SELECT id, rank() OVER (PARTITION BY region ORDER BY amount DESC) AS place FROM selects.t;
SELECT id FROM selects.t WHERE id < 2 UNION ALL SELECT id FROM selects.t WHERE id > 17;
SELECT region FROM selects.t INTERSECT SELECT region FROM selects.regions;
SELECT region FROM selects.t EXCEPT SELECT region FROM selects.regions;
SELECT DISTINCT region FROM selects.t ORDER BY region NULLS LAST LIMIT 2;
SELECT (SELECT max(id) FROM selects.t) AS top, name FROM selects.regions;
SELECT * FROM (SELECT region, id % 3 AS k FROM selects.t) PIVOT (count(*) FOR k IN (0, 1, 2));
SELECT r.name, x.n FROM selects.regions r, LATERAL (SELECT count(*) AS n FROM selects.t t WHERE t.region = r.region) x;
FROM selects.t SELECT id WHERE id < 3;
TABLE selects.regions;
SELECT id FROM selects.t WHERE at BETWEEN TIMESTAMP '1970-01-03 00:00:00' AND TIMESTAMP '1970-01-05 00:00:00';
SELECT id, amount FROM selects.t WHERE region <=> NULL AND amount IN (0.00, 6.25);
SELECT missing FROM selects.t;
SELECT id FROM selects.t GROUP BY region;
SELECT id FROM selects.t t JOIN selects.regions r;
SELECT 1 / 0 FROM selects.t;
CREATE TEMPORARY VIEW select_eu AS SELECT id, amount FROM selects.t WHERE region = 'eu';
SELECT count(*) AS n FROM select_eu;
CREATE TEMPORARY VIEW select_eu AS SELECT 1 AS x FROM selects.t;
CREATE OR REPLACE TEMPORARY VIEW select_eu (key, twice) AS SELECT id, amount * 2 FROM selects.t WHERE id < 3;
SELECT * FROM select_eu;
INSERT INTO selects.t VALUES (-1, 'eu', 1, NULL);
SELECT * FROM select_eu v JOIN selects.t t ON v.key = t.id;
DROP VIEW select_eu;
SELECT * FROM select_eu;
""",
    "time_travel": """
CREATE TABLE time_travel.t (id bigint, name string) USING iceberg;
SELECT * FROM time_travel.t VERSION AS OF 1;
INSERT INTO time_travel.t VALUES (1, 'a');
INSERT INTO time_travel.t VALUES (2, 'b');
ALTER TABLE time_travel.t CREATE TAG `end-of-week`;
ALTER TABLE time_travel.t RENAME COLUMN name TO title;
ALTER TABLE time_travel.t ADD COLUMN extra int;
DELETE FROM time_travel.t WHERE id = 1;
ALTER TABLE time_travel.t CREATE BRANCH audit;
INSERT INTO time_travel.t.branch_audit VALUES (9, 'audit', 9);
SELECT * FROM time_travel.t VERSION AS OF {snapshot[0]};
SELECT * FROM time_travel.t FOR VERSION AS OF {snapshot[1]};
SELECT * FROM time_travel.t FOR SYSTEM_VERSION AS OF {snapshot[1]};
SELECT * FROM time_travel.t VERSION AS OF 'end-of-week';
SELECT * FROM time_travel.t VERSION AS OF 'audit';
SELECT * FROM time_travel.t.branch_audit;
SELECT * FROM time_travel.t.`tag_end-of-week`;
SELECT * FROM time_travel.t TIMESTAMP AS OF '{time[0]}';
SELECT * FROM time_travel.t TIMESTAMP AS OF TIMESTAMP '{time[1]}';
SELECT * FROM time_travel.t FOR SYSTEM_TIME AS OF '{time[1]}';
SELECT * FROM time_travel.t FOR TIMESTAMP AS OF '{time[1]}' AS old WHERE old.id = 2;
SELECT * FROM time_travel.t TIMESTAMP AS OF '2001-01-01 00:00:00';
SELECT * FROM time_travel.t TIMESTAMP AS OF 'no time';
SELECT * FROM time_travel.t VERSION AS OF 1;
SELECT * FROM time_travel.t VERSION AS OF 'missing';
SELECT * FROM time_travel.t.branch_missing;
SELECT new.id, old.name FROM time_travel.t new JOIN time_travel.t VERSION AS OF {snapshot[1]} old ON new.id = old.id;
SELECT * FROM time_travel.t WHERE id NOT IN (SELECT id FROM time_travel.t VERSION AS OF {snapshot[0]});
INSERT INTO time_travel.t SELECT id + 10, name, NULL FROM time_travel.t VERSION AS OF {snapshot[0]};
MERGE INTO time_travel.t t USING (SELECT * FROM time_travel.t VERSION AS OF 'end-of-week') s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, title) VALUES (s.id, s.name);
""",
    "metadata": """
CREATE TABLE metadata.t (id bigint, part string) USING iceberg PARTITIONED BY (part);
SELECT count(*) FROM metadata.t.snapshots;
SELECT count(*) FROM metadata.t.files;
SELECT name, lower(type) AS type FROM metadata.t.refs;
INSERT INTO metadata.t VALUES (1, 'a'), (2, 'a'), (3, 'b');
INSERT INTO metadata.t VALUES (4, 'c');
DELETE FROM metadata.t WHERE part = 'b';
INSERT OVERWRITE metadata.t PARTITION (part = 'a') SELECT 5;
SELECT operation FROM metadata.t.snapshots ORDER BY committed_at;
SELECT operation, summary['added-records'] AS added, summary['deleted-records'] AS deleted, summary['total-records'] AS total FROM metadata.t.snapshots;
SELECT operation, s.parent_id IS NULL AS is_first FROM metadata.t.snapshots s;
SELECT h.is_current_ancestor, s.operation FROM metadata.t.history h JOIN metadata.t.snapshots s ON h.snapshot_id = s.snapshot_id;
SELECT count(*), sum(record_count) FROM metadata.t.files;
SELECT lower(file_format) AS format, spec_id + 0 AS spec, record_count + 0 AS records FROM metadata.t.files;
SELECT sum(record_count) AS records, sum(file_count) AS files FROM metadata.t.partitions GROUP BY partition;
SELECT count(*) > 0 AS any FROM metadata.t.manifests;
SELECT count(*) FROM metadata.t.entries WHERE status < 2;
SELECT name, lower(type) AS type FROM metadata.t.refs;
SELECT sum(record_count) FROM metadata.t.files VERSION AS OF {snapshot[0]};
SELECT * FROM metadata.t.no_such_table;
INSERT INTO metadata.t.files VALUES (1);
""",
}
