"""How much memory the task takes that rewrites a large file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.write.rewritten_large_file import CASES, GROUPS, make

MB = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    make(folder / "old.parquet")
    footer = pq.read_metadata(folder / "old.parquet")
    sizes = [sum(footer.row_group(group).column(at).total_compressed_size for at in range(footer.num_columns)) for group in range(GROUPS)]
    assert sum(sizes) > 1000 * MB and min(sizes) > 60 * MB
    return folder


@pytest.mark.soak
@pytest.mark.feature("I15")
@pytest.mark.parametrize("case", CASES)
def test_a_task_that_rewrites_a_gigabyte_stays_small(folder: Path, case: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.write.rewritten_large_file", str(folder), case], capture_output=True, text=True, timeout=600, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    grown, changed = map(int, done.stdout.split())
    print(f"{case}: {grown // MB} MB above the start, {changed} rows changed")
    assert changed == CASES[case][1]
    assert grown < 400 * MB
