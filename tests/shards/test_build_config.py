"""A configuration that cannot work is refused, with a typed error, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewright.errors import ColumnNotFound, InvalidOption, InvalidRouting, InvalidShardKey, InvalidShardValue, LakewrightError, UnknownOption
from lakewright.shards.build import write
from lakewright.shards.config import ShardConfig
from tests.shards.build_kit import Place, people

GOOD: dict[str, Any] = {"url": "/somewhere", "key": "id", "value": "payload", "num_shards": 4}

BAD: list[tuple[dict[str, Any], type[LakewrightError], str]] = [
    ({"num_shards": 0}, InvalidRouting, "num_shards is 0"),
    ({"num_shards": -3}, InvalidRouting, "num_shards is -3"),
    ({"num_shards": True}, InvalidRouting, "num_shards is True"),
    ({"num_shards": None}, InvalidRouting, "number of shards is missing"),
    ({"num_shards": None, "max_keys_per_shard": 0}, InvalidRouting, "max_keys_per_shard is 0"),
    ({"max_keys_per_shard": 10}, InvalidRouting, "give one of them"),
    ({"cel_columns": ["region"]}, InvalidRouting, "go with an expression"),
    ({"infer_routing_values": True}, InvalidRouting, "go with an expression"),
    ({"cel": "region", "num_shards": None, "max_keys_per_shard": 10}, InvalidRouting, "goes with routing by hash"),
    ({"cel": "region", "num_shards": None}, InvalidRouting, "give num_shards"),
    ({"cel": "region", "num_shards": None, "routing_values": ["eu"], "infer_routing_values": True}, InvalidRouting, "choose one"),
    ({"cel": "region", "infer_routing_values": True}, InvalidRouting, "leave num_shards out"),
    ({"url": ""}, InvalidOption, "url is ''"),
    ({"key": ""}, InvalidOption, "key is ''"),
    ({"value": []}, InvalidOption, "value is"),
    ({"value": ["a", "a"]}, InvalidOption, "a column twice"),
    ({"value": 5}, InvalidOption, "value is 5"),
    ({"value_columns": ["a"]}, InvalidOption, "goes with a function"),
    ({"backend": "rocks"}, InvalidOption, "one of sqlite, slatedb"),
    ({"backend": "slate"}, InvalidOption, "Did you mean slatedb"),
    ({"codec": "xml"}, InvalidOption, "one of json, msgpack, avro"),
    ({"duplicates": "first"}, InvalidOption, "one of error, last"),
    ({"duplicates": "last"}, InvalidOption, "go together"),
    ({"ordering": "at"}, InvalidOption, "go together"),
    ({"duplicates": "last", "ordering": "at", "sort": False}, InvalidOption, "sorted by key"),
    ({"operations_per_second": 0}, InvalidOption, "operations_per_second is 0"),
    ({"bytes_per_second": -1.5}, InvalidOption, "bytes_per_second is -1.5"),
    ({"bytes_per_second": float("inf")}, InvalidOption, "bytes_per_second is inf"),
    ({"sample_size": 0}, InvalidOption, "sample_size is 0"),
    ({"batch_rows": 0}, InvalidOption, "batch_rows is 0"),
    ({"shard_retry": -1}, InvalidOption, "shard_retry is -1"),
    ({"run_registry_prefix": "/"}, InvalidOption, "run_registry_prefix"),
    ({"run_registry_prefix": "a/../b"}, InvalidOption, "run_registry_prefix"),
]


@pytest.mark.parametrize(("change", "error", "text"), BAD, ids=lambda given: ",".join(given) if isinstance(given, dict) else None)
def test_what_cannot_work_is_refused(change: dict[str, Any], error: type[LakewrightError], text: str) -> None:
    with pytest.raises(error, match=text):
        ShardConfig(**{**GOOD, **change})


def test_an_unknown_option_gets_a_hint() -> None:
    with pytest.raises(UnknownOption, match="Did you mean num_shards"):
        ShardConfig.of(**GOOD, num_shard=4)


def test_a_missing_value_is_asked_for() -> None:
    with pytest.raises(InvalidOption, match="Give value="):
        ShardConfig.of(url="/somewhere", key="id", num_shards=4)


def test_the_digest_tells_what_decides_the_shards_and_nothing_else() -> None:
    one = ShardConfig(**GOOD).digest
    assert one == ShardConfig(**{**GOOD, "url": "/elsewhere", "batch_rows": 7, "operations_per_second": 5}).digest
    others = [{"num_shards": 5}, {"key": "name"}, {"value": "name"}, {"value": ["payload"]}, {"backend": "slatedb"}, {"cel": "key % 4"}, {"value": len}]
    digests = {ShardConfig(**{**GOOD, **change}).digest for change in others}
    assert len(digests | {one}) == len(others) + 1


def test_the_digest_of_a_function_changes_with_its_code() -> None:
    def function(batch: Any) -> Any:
        return batch.column(0)

    before = ShardConfig(**{**GOOD, "value": function}).digest

    def function(batch: Any) -> Any:  # type: ignore[no-redef]
        return batch.column(1)

    assert ShardConfig(**{**GOOD, "value": function}).digest != before


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"key": "idd"}, ColumnNotFound, "Did you mean id"),
        ({"value": "paylod"}, ColumnNotFound, "Did you mean payload"),
        ({"value": ["name", "nothing"]}, ColumnNotFound, "no column 'nothing'"),
        ({"value": "name"}, InvalidShardValue, "not one binary column"),
        ({"key": "rank"}, InvalidShardKey, "double"),
        ({"cel": "key % 4 +", "num_shards": 4}, InvalidRouting, "does not compile"),
        ({"cel": "region", "cel_columns": ["region"], "num_shards": 4}, InvalidRouting, "has to yield"),
        ({"cel": "region", "cel_columns": ["regoin"], "num_shards": 4}, ColumnNotFound, "Did you mean region"),
        ({"cel": "regoin", "cel_columns": ["region"], "infer_routing_values": True}, InvalidRouting, "does not compile"),
        ({"duplicates": "last", "ordering": "att"}, ColumnNotFound, "no column 'att'"),
    ],
    ids=lambda given: "-".join(map(str, given)) if isinstance(given, dict) else None,
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(spark: Any, tmp_path: Path, options: dict[str, Any], error: type[LakewrightError], text: str) -> None:
    place = Place(str(tmp_path / "users"))
    rows = people(spark, 10).selectExpr("*", "cast(id as double) as rank")
    with pytest.raises(error, match=text):
        write(rows, place.config(**options), progress="off")
    assert not Path(place.url).exists()
