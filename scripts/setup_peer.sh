#!/bin/sh
# What the interoperability suite compares with: .venv-peer holds the PySpark release that the newest Iceberg Spark runtime
# is built for, which is also the oldest series Lakewright admits; .jars holds the runtime, a REST catalog and S3 clients.
set -eu
cd "$(dirname "$0")/.."
. scripts/system.sh
PEER_PYSPARK=4.1.4

need_postgres
[ -x .venv-peer/bin/python ] || "${PYTHON:-python3}" -m venv .venv-peer
grep -vE '^(pyspark|py4j)==' requirements.lock >.venv-peer/constraints.txt
.venv/bin/uv pip install --quiet --python .venv-peer/bin/python --constraint .venv-peer/constraints.txt "pyspark==$PEER_PYSPARK" --config-settings editable_mode=compat --editable '.[test]'
.venv/bin/python scripts/fetch_jars.py peer rest s3
touch .venv-peer/.installed
