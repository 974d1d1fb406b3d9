from __future__ import annotations

from pathlib import Path

import pytest

from tests.commit.kit import Kit


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """A table without partitions."""
    return Kit(tmp_path / "lake")


@pytest.fixture
def v3(tmp_path: Path) -> Kit:
    """A table of format 3 without partitions."""
    return Kit(tmp_path / "lake", format_version=3)


@pytest.fixture
def by_region(tmp_path: Path) -> Kit:
    """A table partitioned by region."""
    return Kit(tmp_path / "lake", partition_by=["region"])
