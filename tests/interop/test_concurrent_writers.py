"""Processes that write to one table at once, on catalogs that are servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.writers import Place, check_branches, check_eight_writers, check_writers_with_spec_change
from tests.interop.services.postgres import Postgres
from tests.interop.services.rest import RestCatalog


@pytest.mark.feature("I13", "D6")
@pytest.mark.parametrize("check", [check_eight_writers, check_writers_with_spec_change, check_branches], ids=lambda check: check.__name__)
def test_postgres(check: Callable[[Place], object], postgres: Postgres, tmp_path: Path) -> None:
    catalog = {"name": check.__name__, "type": "sql", "uri": postgres.sqlalchemy_uri}
    check(Place(str(tmp_path / "lake"), catalog))


@pytest.mark.feature("I13", "D6")
def test_rest(rest: RestCatalog) -> None:
    check_eight_writers(Place(rest.warehouse, {"name": "rest", "type": "rest", "uri": rest.uri}))
