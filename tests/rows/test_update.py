"""UPDATE: values that come from the row itself, columns that came later, rows that move, and bytes that stay."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.rows.drawn import NULL
from tests.rows.expressions import Col, Expression, Is, Literal, Plus
from tests.rows.kit import GRAFTED, MERGE_ON_READ, STREAMED, Layout, Trial, local, scans
from tests.rows.test_delete import ROWS, is_, some

ONE = Literal("1", 1)
EACH_WAY = some((GRAFTED, 3, False, True), (STREAMED, 3, True, True), (MERGE_ON_READ, 3, False, True), (MERGE_ON_READ, 2, True, True))
NESTED_ROWS = [
    {**row, "s": struct, "l": items}
    for row, struct, items in zip(ROWS, ({"a": 1, "b": "q"}, None, {"a": None, "b": None}, {"a": 4, "b": "z"}), ([1, None], None, [], [3]), strict=True)
]


def column(*path: str) -> Expression:
    return Col(path)


@pytest.fixture
def filled(lake: Any, layout: Layout) -> Trial:
    trial = Trial(lake, layout)
    trial.append(NESTED_ROWS)
    return trial


@pytest.mark.feature("I14", "I15", "I16", "I6")
@pytest.mark.parametrize("layout", EACH_WAY, ids=str)
def test_columns_that_were_added_renamed_and_promoted(filled: Trial) -> None:
    filled.add_column("tip", "double")
    filled.rename_column("t", "label")
    filled.promote("n")
    filled.update({("tip",): Literal("2.5D", 2.5), ("n",): Literal("5000000000", 5_000_000_000)}, is_("id", "<=", 2))
    filled.update({("label",): Plus(column("label"), Literal("'!'", "!"), "||"), ("tip",): NULL}, is_("id", ">=", 2))
    filled.drop_column("x")
    filled.rename_column("label", "x")
    filled.update({("x",): Literal("'new'", "new"), ("n",): Plus(column("n"), ONE)})


@pytest.mark.feature("I14", "I15", "I16")
@pytest.mark.parametrize("layout", EACH_WAY, ids=str)
def test_fields_of_structs(filled: Trial) -> None:
    """Also in a null struct, where the other fields are null."""
    filled.update({("s", "a"): Literal("9", 9), ("n",): column("s", "a")}, is_("id", "<", 3))
    filled.update({("s", "b"): Literal("'k'", "k"), ("l",): Literal("array(7)", [7])})
    filled.update({("s",): NULL, ("l",): NULL}, Is(column("id"), True))


@pytest.mark.feature("I14", "I15", "I16")
@pytest.mark.parametrize("layout", some((GRAFTED, 3, True, False), (STREAMED, 2, True, False), (MERGE_ON_READ, 3, True, False)), ids=str)
def test_values_are_of_the_row_as_it_was_and_rows_change_partition(lake: Any, layout: Layout) -> None:
    trial = Trial(lake, layout)
    trial.append(ROWS)
    trial.update({("n",): column("id"), ("id",): column("n"), ("t",): column("p"), ("p",): column("t")})
    trial.update({("p",): Literal("'x%2F/ü'", "x%2F/ü")}, is_("n", "=", 1))
    trial.update({("n",): ONE}, is_("p", "=", "x%2F/ü"))


@pytest.mark.feature("I15")
@pytest.mark.parametrize("version", [2, 3])
def test_columns_that_are_not_set_are_copied_as_bytes(lake: Any, version: int) -> None:
    trial = Trial(lake, Layout(GRAFTED, version, False, False))
    trial.append([{**row, "id": n} for n, row in enumerate(ROWS * 3)], files=1, engine="arrow")
    (before,) = [local(scanned.data_file.file_path) for scanned in scans(trial)]
    trial.update({("n",): ONE}, is_("id", "=", 5))
    (after,) = [local(scanned.data_file.file_path) for scanned in scans(trial)]
    assert {name for name in trial.columns if chunks(before, name) == chunks(after, name)} == {"id", "p", "x", "t"}


def chunks(path: Any, name: str) -> list[bytes]:
    """The bytes of a column in each row group."""
    footer, data = pq.read_metadata(path), path.read_bytes()
    found = []
    for group in range(footer.num_row_groups):
        columns = (footer.row_group(group).column(at) for at in range(footer.num_columns))
        chunk = next(c for c in columns if c.path_in_schema == name)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        found.append(data[start : start + chunk.total_compressed_size])
    return found
