"""A real Hive metastore, from the jars PySpark brings along, with a Derby database."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.interop.services.process import ServiceFailed, answers, free_port, serving

SITE = """<?xml version="1.0"?>
<configuration>
  <property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:;databaseName={folder}/metastore_db;create=true</value></property>
  <property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
  <property><name>hive.metastore.schema.verification</name><value>false</value></property>
  <property><name>hive.async.log.enabled</name><value>false</value></property>
  <property><name>hive.metastore.disallow.incompatible.col.type.changes</name><value>false</value></property>
  <property><name>datanucleus.connectionPoolingType</name><value>HikariCP</value></property>
  <property><name>hive.metastore.warehouse.dir</name><value>file://{folder}/warehouse</value></property>
</configuration>
"""

# The tables of Hive's lock manager, as its TxnDbUtil has them: automatic schema creation leaves them out, and Iceberg's commits take a lock.
LOCK_TABLES = """
CREATE TABLE TXNS (TXN_ID bigint PRIMARY KEY, TXN_STATE char(1) NOT NULL, TXN_STARTED bigint NOT NULL, TXN_LAST_HEARTBEAT bigint NOT NULL,
  TXN_USER varchar(128) NOT NULL, TXN_HOST varchar(128) NOT NULL);
CREATE TABLE TXN_COMPONENTS (TC_TXNID bigint REFERENCES TXNS (TXN_ID), TC_DATABASE varchar(128) NOT NULL, TC_TABLE varchar(128),
  TC_PARTITION varchar(767), TC_OPERATION_TYPE char(1) NOT NULL);
CREATE TABLE NEXT_TXN_ID (NTXN_NEXT bigint NOT NULL);
INSERT INTO NEXT_TXN_ID VALUES (1);
CREATE TABLE HIVE_LOCKS (HL_LOCK_EXT_ID bigint NOT NULL, HL_LOCK_INT_ID bigint NOT NULL, HL_TXNID bigint, HL_DB varchar(128) NOT NULL,
  HL_TABLE varchar(128), HL_PARTITION varchar(767), HL_LOCK_STATE char(1) NOT NULL, HL_LOCK_TYPE char(1) NOT NULL, HL_LAST_HEARTBEAT bigint NOT NULL,
  HL_ACQUIRED_AT bigint, HL_USER varchar(128) NOT NULL, HL_HOST varchar(128) NOT NULL, HL_HEARTBEAT_COUNT integer, HL_AGENT_INFO varchar(128),
  HL_BLOCKEDBY_EXT_ID bigint, HL_BLOCKEDBY_INT_ID bigint, PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID));
CREATE TABLE NEXT_LOCK_ID (NL_NEXT bigint NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE AUX_TABLE (MT_KEY1 varchar(128) NOT NULL, MT_KEY2 bigint NOT NULL, MT_COMMENT varchar(255), PRIMARY KEY (MT_KEY1, MT_KEY2));
"""


@dataclass(frozen=True)
class HiveMetastore:
    uri: str


@contextmanager
def hive_metastore(folder: Path) -> Iterator[HiveMetastore]:
    port = free_port()
    conf = folder / "hive-conf"
    conf.mkdir()
    (conf / "hive-site.xml").write_text(SITE.format(folder=folder))
    jars = Path(pyspark.__file__).parent / "jars"
    _make_lock_tables(folder, jars)
    command = ["java", "-Xmx512m", f"-Dderby.stream.error.file={folder}/derby.log", "-cp", f"{conf}:{jars}/*", "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    with serving("The Hive metastore", command, folder / "hive.log", lambda: answers(port)):
        yield HiveMetastore(f"thrift://127.0.0.1:{port}")


def _make_lock_tables(folder: Path, jars: Path) -> None:
    script = folder / "lock-tables.sql"
    script.write_text(f"CONNECT 'jdbc:derby:{folder}/metastore_db;create=true';\nSET SCHEMA APP;\n{LOCK_TABLES}")
    made = subprocess.run(["java", "-cp", f"{jars}/*", "org.apache.derby.tools.ij", str(script)], capture_output=True, text=True, cwd=folder)
    if made.returncode or "ERROR" in made.stdout:
        raise ServiceFailed(f"The lock tables of the Hive metastore could not be made.\n{made.stdout}\n{made.stderr}")
