"""Routing by an expression: direct, by declared or found tokens, over several columns; and each way it can go wrong."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import InvalidRouting, UnsupportedSnapshot
from lakewright.shards.cel import CelRouting, cel_routing, cel_types
from lakewright.shards.manifest import parsed_manifest, sealed
from lakewright.shards.routing import routing_from_json

pytestmark = pytest.mark.feature("S2")
REGIONS = ["ap", "eu", "us"]


@dataclass(frozen=True)
class Case:
    """A kind of expression, with what makes it fail: a text that does not compile, and a row it has no shard for."""

    expression: str
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    num_shards: int | None = None
    values: list[Any] | None = None
    bad_expression: str = "key %"
    outside: Mapping[str, Any] = field(default_factory=dict)

    def routing(self, expression: str | None = None) -> CelRouting:
        return cel_routing(expression or self.expression, key_column="id", key_type="int", columns=self.columns, num_shards=self.num_shards, values=self.values)


CASES = {
    "direct": Case("key >= 0 ? key % 5 : 5 + -(key % 3)", num_shards=8, outside={"id": 4}),
    "categorical": Case("region", {"region": pa.string()}, values=["us", "eu", "ap"], outside={"id": 1, "region": "mars"}),
    "several columns": Case("premium ? 0 : region == 'eu' ? 1 + id % 2 : 3", {"region": pa.string(), "premium": pa.bool_()}, num_shards=4, bad_expression="region + id", outside={"id": -1, "region": "eu", "premium": False}),
    "tokens of several columns": Case("region + (id % 2 == 0 ? '-even' : '-odd')", {"region": pa.string()}, values=[f"{r}-{p}" for r in REGIONS for p in ("even", "odd")], outside={"id": 1, "region": "??"}),
}


@pytest.mark.parametrize("name", CASES)
@given(st.data())
def test_columns_are_routed_as_single_keys(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    routing = case.routing()
    row = st.tuples(st.integers(0, 2**62), st.sampled_from(REGIONS), st.booleans())
    rows = data.draw(st.lists(row, max_size=40))
    batch = pa.record_batch({"id": pa.array([r[0] for r in rows], pa.int64()), "region": pa.array([r[1] for r in rows], pa.string()), "premium": pa.array([r[2] for r in rows], pa.bool_())})
    again = routing_from_json(pickle.loads(pickle.dumps(routing)).to_json())
    assert again == routing
    assert routing.shards_of(batch, "id").to_pylist() == [again.shard_of(key, {"region": region, "premium": premium}) for key, region, premium in rows]


@pytest.mark.parametrize("name", CASES)
def test_an_expression_that_does_not_compile(name: str) -> None:
    with pytest.raises(InvalidRouting, match="does not compile"):
        CASES[name].routing(CASES[name].bad_expression)


def test_tokens_that_are_found_first() -> None:
    batch = pa.record_batch({"id": [1, 2, 3, 4], "region": ["us", "eu", "us", "ap"]})
    finding = cel_routing("region", key_column="id", key_type="int", columns={"region": pa.string()}, values=["?"])
    tokens = sorted(finding.tokens_of(batch, "id"))
    assert tokens == REGIONS
    routing = cel_routing("region", key_column="id", key_type="int", columns={"region": pa.string()}, values=tokens)
    assert routing.shards_of(batch, "id").to_pylist() == [2, 1, 2, 0]
    with pytest.raises(InvalidRouting, match="token 'mars'"):
        routing.shard_of(1, {"region": "mars"})


@pytest.mark.parametrize("name", ["categorical", "tokens of several columns"])
def test_an_unknown_token(name: str) -> None:
    case = CASES[name]
    columns = {key: value for key, value in case.outside.items() if key != "id"}
    with pytest.raises(InvalidRouting, match="not among the"):
        case.routing().shard_of(case.outside["id"], columns)
    with pytest.raises(InvalidRouting, match="not among the"):
        case.routing().shards_of(pa.record_batch({key: [value] for key, value in case.outside.items()}), "id")


@pytest.mark.parametrize(("expression", "key"), [("key", 4), ("key", -1), ("key + 4", 0), ("1 / (key - 1)", 1), ("dyn('x')", 1), ("dyn(true)", 1), ("dyn(1.0)", 1)])
def test_a_result_out_of_range(expression: str, key: int) -> None:
    routing = cel_routing(expression, key_column="id", key_type="int", num_shards=4)
    for route in (lambda: routing.shard_of(key), lambda: routing.shards_of(pa.record_batch({"id": [0, key]}), "id")):
        with pytest.raises(InvalidRouting, match="yields|fails"):
            route()


@pytest.mark.parametrize(("expression", "values"), [("key > 1", None), ("'a'", None), ("1.5", None), ("[1]", None), ("[key]", ["a"]), ("1.5", ["a"])])
def test_results_of_a_type_that_is_no_shard(expression: str, values: Any) -> None:
    with pytest.raises(InvalidRouting, match="has to yield"):
        cel_routing(expression, key_column="id", key_type="int", num_shards=None if values else 4, values=values)


@pytest.mark.parametrize(("num_shards", "values"), [(None, None), (0, None), (100_001, None), (None, []), (None, ["a", "a"]), (3, ["a", "b"]), (None, [1.5])])
def test_numbers_of_shards_and_tokens_that_cannot_be(num_shards: Any, values: Any) -> None:
    with pytest.raises(InvalidRouting):
        cel_routing("dyn(key)", key_column="id", key_type="int", num_shards=num_shards, values=values)


def test_tokens_are_told_apart_by_type() -> None:
    routing = cel_routing("dyn(key > 5 ? dyn(true) : dyn(1))", key_column="id", key_type="int", values=[1, True])
    assert [routing.shard_of(1), routing.shard_of(9)] == [0, 1]
    assert routing_from_json(routing.to_json()) == routing


def test_what_a_get_has_to_give() -> None:
    routing = CASES["several columns"].routing()
    assert routing.routing_columns == ("region", "premium") and not routing.uses_only_key
    with pytest.raises(InvalidRouting, match="routing=.* with premium"):
        routing.shard_of(1, {"region": "eu"})
    with pytest.raises(InvalidRouting, match="with region, premium"):
        routing.shard_of(1)
    assert CASES["direct"].routing().uses_only_key and cel_routing("0", key_column="id", key_type="int", num_shards=1).shard_of(7) == 0


def test_columns_that_are_null_missing_or_of_no_use() -> None:
    routing = CASES["categorical"].routing()
    with pytest.raises(InvalidRouting, match="1 nulls"):
        routing.shards_of(pa.record_batch({"id": [1], "region": pa.array([None], pa.string())}), "id")
    with pytest.raises(InvalidRouting, match="do not have"):
        routing.shards_of(pa.record_batch({"id": [1]}), "id")
    with pytest.raises(InvalidRouting, match="Rename"):
        cel_types({"my column": pa.string()})
    with pytest.raises(InvalidRouting, match="cannot be used"):
        cel_types({"l": pa.list_(pa.int64())})


def test_every_type_of_column() -> None:
    columns = {"i": pa.int32(), "s": pa.large_string(), "b": pa.binary(), "t": pa.timestamp("us", "UTC"), "d": pa.float32(), "f": pa.bool_()}
    routing = cel_routing("i + size(s) + size(b) + t.getFullYear() - 2024 + int(d) + (f ? 1 : 0)", key_column="k", key_type="str", columns=columns, num_shards=100)
    row = {"i": 1, "s": "ab", "b": b"abc", "t": datetime(2024, 5, 1, tzinfo=UTC), "d": 2.0, "f": True}
    batch = pa.record_batch({"k": ["x"], **{name: pa.array([row[name]], type) for name, type in columns.items()}})
    assert routing.shards_of(batch, "k").to_pylist() == [routing.shard_of("x", row)] == [9]


def test_a_reader_refuses_an_expression_it_cannot_compile() -> None:
    body = {"format_version": 1, "key_type": "int", "version": 1, "run_id": "r", "created_ms": 0, "routing": {**CASES["direct"].routing().to_json(), "expression": "key.fromTheFuture()"}}
    with pytest.raises(UnsupportedSnapshot, match="does not work here"):
        parsed_manifest(sealed(body), "here")
