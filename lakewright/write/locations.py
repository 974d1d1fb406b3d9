"""Where a data file of a run is put."""

from __future__ import annotations

import zlib
from typing import Any

from lakewright.format.paths import partition_path
from lakewright.options import OBJECT_STORE_PATHS
from lakewright.plan.write_plan import WritePlan


def file_location(plan: WritePlan, partition: tuple[Any, ...], name: str) -> str:
    """Under the run's prefix, in the folder of its partition; with a hash before it if the table asks for spread paths."""
    folders = [plan.data_prefix]
    if plan.options[OBJECT_STORE_PATHS]:
        folders.append(f"{zlib.crc32(name.encode()):08x}")
    if plan.spec.fields:
        folders.append(partition_path(plan.spec, plan.schema, partition))
    return "/".join([*folders, name])
