"""Notes of the lines that made column expressions: Lakewright's own are left out, those of its users stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import ArithmeticException, utils
from pyspark.sql import functions as F

from lakewright.call_sites import no_call_sites
from tests.trips import D1, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.table import Table


@pytest.fixture(autouse=True)
def noting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "_enable_debugging_cache", True)


def test_a_write_makes_its_expressions_without_notes_and_leaves_the_session_as_it_was(spark: SparkSession, filled: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[int] = []
    capture = utils._capture_call_site
    monkeypatch.setattr(utils, "_capture_call_site", lambda depth: noted.append(depth) or capture(depth))
    source = rows(spark, (1, "eu", D1), (9, "us", D1))
    assert F.col("id") + 1 is not None and noted
    noted.clear()
    filled.merge(source, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    filled.read().select("id")
    assert noted == [] and utils.is_debugging_enabled()


def test_an_error_still_names_the_line_of_its_user(spark: SparkSession, filled: Table) -> None:
    filled.delete("id = 1")
    with pytest.raises(ArithmeticException, match="test_call_sites.py"):
        filled.read().select(F.col("id") / 0).collect()


def test_a_write_that_fails_leaves_notes_on(filled: Table) -> None:
    with pytest.raises(Exception, match="nowhere"):
        filled.delete("nowhere = 1")
    assert utils.is_debugging_enabled()


def test_blocks_within_blocks_end_with_the_outermost() -> None:
    with no_call_sites():
        with no_call_sites():
            assert not utils.is_debugging_enabled()
        assert not utils.is_debugging_enabled()
    assert utils.is_debugging_enabled()
