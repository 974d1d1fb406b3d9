"""What Spark forks Python workers from in a session of our own: what every writing task imports is imported once, before the fork.

Spark ends workers that were idle for a minute, and each new one would spend more than two seconds of CPU on these imports. After
each task a worker looks through all its objects for garbage, which for those of the imports took 0.08 s a task: they are set aside.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401  (pyarrow imports it at the first conversion)
import pyspark.worker  # noqa: F401  (the work itself)
from pyspark.daemon import manager

import lakewright.write.delta_task  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
