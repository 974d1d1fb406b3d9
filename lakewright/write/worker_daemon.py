"""What Spark forks Python workers from in a session of our own: what every writing task imports is imported once, before the fork.

Spark ends workers that were idle for a minute, and each new one would spend more than two seconds of CPU on these imports.
"""

from __future__ import annotations

import pandas  # noqa: F401  (pyarrow imports it at the first conversion)
from pyspark.daemon import manager

import lakewright.write.delta_task  # noqa: F401

if __name__ == "__main__":
    manager()
