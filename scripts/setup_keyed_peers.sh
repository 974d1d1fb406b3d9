#!/bin/sh
# What the benchmark of keyed tables compares with: .venv-keyed holds the PySpark release that the newest Hudi and Paimon
# bundles on Maven Central have in common, .jars/keyed the bundles. Only `make bench` needs them.
set -eu
cd "$(dirname "$0")/.."
. scripts/system.sh
KEYED_PYSPARK=3.5.7

[ -x .venv-keyed/bin/python ] || "${PYTHON:-python3}" -m venv .venv-keyed
.venv/bin/uv pip install --quiet --python .venv-keyed/bin/python "pyspark==$KEYED_PYSPARK" psutil setuptools
.venv/bin/python scripts/fetch_jars.py keyed
touch .venv-keyed/.installed
