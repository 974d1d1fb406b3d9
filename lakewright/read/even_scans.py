"""One scan as two or three, where Spark's tasks for it would leave cores idle at the end.

Spark packs files into tasks of up to `spark.sql.files.maxPartitionBytes`, and into one for each core where that is less. So a scan
of 360 MB on two cores becomes three tasks of 120 MB, and one core has nothing to do while the third runs. Two scans of half the
files each become two tasks of 90 MB, which end together. With many tasks for each core the last ones matter little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeVar

from lakewright.format.data_file import DataFile
from lakewright.session import cores_at_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_BYTES, OPEN_COST = "spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"
LEAST_BYTES = 16 * 1024 * 1024  # below, another scan costs more to plan than it saves
MOST_SCANS = 3
WORTH_WHILE = 1.1  # the time of one scan, by that of several
T = TypeVar("T")
_UNITS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}


@dataclass(frozen=True)
class Packing:
    """How Spark makes tasks of files: `most` bytes to each, of which a file takes its own and `open_cost`."""

    cores: int
    most: int
    open_cost: int

    def tasks(self, sizes: Sequence[int]) -> list[int]:
        """The bytes that each task of a scan reads."""
        split = min(self.most, max(self.open_cost, (sum(sizes) + len(sizes) * self.open_cost) // self.cores, 1))
        pieces = sorted((piece for size in sizes for piece in (*repeat(split, size // split), size % split) if piece), reverse=True)
        tasks: list[int] = []
        room = -1
        for piece in pieces:
            if piece > room:
                tasks.append(0)
                room = split
            tasks[-1] += piece
            room -= piece + self.open_cost
        return tasks

    def time(self, scans: Sequence[Sequence[int]]) -> float:
        """Until the last task ends, each on the first core that is free; by what it would take with all cores busy throughout."""
        busy = [0] * self.cores
        for task in chain.from_iterable(map(self.tasks, scans)):
            heapreplace(busy, busy[0] + task)
        return max(busy) * self.cores / sum(busy) if sum(busy) else 1.0


def even_scans(spark: SparkSession, files: Sequence[DataFile]) -> list[Sequence[DataFile]]:
    """The files, in as many scans as keep all cores busy to the end."""
    sizes = [file.file_size_in_bytes for file in files]
    cores = cores_at_hand(spark) if sum(sizes) >= LEAST_BYTES else None
    if cores is None:
        return [files]
    most, open_cost = (_bytes(str(spark.conf.get(key))) for key in (MOST_BYTES, OPEN_COST))
    number = number_of_scans(sizes, Packing(cores, most, open_cost)) if most and open_cost is not None else 1
    return [files] if number == 1 else dealt(sorted(files, key=lambda file: -file.file_size_in_bytes), number)


def number_of_scans(sizes: Sequence[int], packing: Packing) -> int:
    if not packing.cores * packing.most // 2 < sum(sizes) <= MOST_SCANS * packing.cores * packing.most:
        return 1  # little to gain, or several tasks for each core in any case
    times = {number: packing.time(dealt(sorted(sizes, reverse=True), number)) for number in range(1, min(MOST_SCANS, len(sizes)) + 1)}
    best = min(times, key=lambda number: times[number])
    return best if times[1] > WORTH_WHILE * times[best] else 1


def dealt(largest_first: Sequence[T], number: int) -> list[Sequence[T]]:
    return [largest_first[first::number] for first in range(number)]


def _bytes(told: str) -> int | None:
    """A size as Spark writes it: 134217728b, 128MB, 64m."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", told.lower())
    return int(found[1]) << _UNITS[found[2]] if found and found[2] in _UNITS else None
