#!/bin/sh
# Make .venv from the lock file, and see that Java 17 or newer is there.
set -eu
cd "$(dirname "$0")/.."
. scripts/system.sh

need_java
[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
.venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON to it.")'
.venv/bin/pip install --quiet --disable-pip-version-check uv
.venv/bin/uv pip install --quiet --python .venv/bin/python --requirement requirements.lock
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --config-settings editable_mode=compat --editable .
touch .venv/.installed
