"""The rows of a build: which columns they need, which shard each belongs to, and one partition for each shard."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.errors import ColumnNotFound, InvalidRouting
from lakewright.quoting import quoted
from lakewright.shards.cel import Token
from lakewright.shards.config import ShardConfig, ValueFunction
from lakewright.shards.failures import telling
from lakewright.shards.keys import KeyType, key_type_of_arrow
from lakewright.shards.moving import PACKED, PLACE, nothing, packed
from lakewright.shards.routing import MOST_SHARDS, CelRouting, HashRouting, Routing, cel_routing, routing_from_json, shards_for
from lakewright.shards.values import ValueCodec, codec_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARD = "__lw_shard"
PROBE = ("",)  # stands for the values of an expression while they are being found
log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class Shape:
    """What the rows are, as far as a build is concerned. `function` makes the values where the caller gave one."""

    key_type: KeyType
    schema: pa.Schema
    codec: ValueCodec
    function: ValueFunction | None
    value_columns: tuple[str, ...]


def shape_of(df: DataFrame, config: ShardConfig) -> Shape:
    """Checks the columns that the configuration names, and their types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    values = tuple(config.columns(df.columns))
    used = list(dict.fromkeys([config.key, *values, *config.cel_columns, *([config.ordering] if config.ordering else [])]))
    for name in used:
        if name not in df.columns:
            near = get_close_matches(name, df.columns, n=1)
            raise ColumnNotFound(f"The rows have no column {name!r}." + (f" Did you mean {near[0]}?" if near else f" They have {', '.join(df.columns)}."), column=name)
    schema = to_arrow_schema(df.select(*map(quoted, used)).schema)
    key_type = key_type_of_arrow(schema.field(config.key).type)
    if callable(config.value):
        return Shape(key_type, schema, ValueCodec("binary"), config.value, values)
    codec = codec_for("binary" if isinstance(config.value, str) else config.codec, values, schema)
    return Shape(key_type, schema, codec, None, values)


def routing_for(df: DataFrame, config: ShardConfig, shape: Shape) -> Routing:
    """The routing, looking at the rows where their number or their tokens decide."""
    if config.cel is None:
        count = config.num_shards or shards_for(df.count(), config.max_keys_per_shard or 1)
        return HashRouting(count)
    values = _inferred(df, config, shape) if config.infer_routing_values else config.routing_values
    return _cel(config, shape, values)


def check_expression(config: ShardConfig, shape: Shape) -> None:
    """What can be said of an expression without its values."""
    if config.cel is not None:
        _cel(config, shape, PROBE if config.infer_routing_values else config.routing_values)


def _cel(config: ShardConfig, shape: Shape, values: Sequence[Token] | None) -> CelRouting:
    columns = {name: shape.schema.field(name).type for name in config.cel_columns}
    return cel_routing(config.cel or "", key_column=config.key, key_type=shape.key_type, columns=columns, num_shards=config.num_shards, values=values)


def _inferred(df: DataFrame, config: ShardConfig, shape: Shape) -> list[Token]:
    """The distinct tokens of all rows, sorted."""
    routing, key, url = _cel(config, shape, PROBE).to_json(), config.key, config.url

    def tokens(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: set[str] = set()
        with telling(url):
            expression = routing_from_json(routing)
            assert isinstance(expression, CelRouting)
            for batch in batches:
                found |= {json.dumps(token) for token in expression.tokens_of(batch, key)}
                if len(found) > MOST_SHARDS:
                    raise InvalidRouting(f"The expression {expression.expression!r} yields more than {MOST_SHARDS} tokens, and each would be a shard.")
        yield pa.record_batch({"token": pa.array(sorted(found), pa.string())})

    rows = df.select(*map(quoted, _routing_columns(config))).mapInArrow(tokens, "token string").distinct().collect()
    found = sorted((json.loads(row.token) for row in rows), key=lambda token: (type(token).__name__, token))
    if not found:
        raise InvalidRouting(f"There are no rows to find the values of {config.cel!r} in; give routing_values.")
    return found


def with_shard(df: DataFrame, config: ShardConfig, routing: Routing) -> DataFrame:
    """The rows with the shard of each. Only the columns that decide go through Python."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import arrow_udf

    described, names, url = routing.to_json(), _routing_columns(config), config.url

    def shards(*columns: pa.Array) -> pa.Array:
        with telling(url):
            batch = pa.RecordBatch.from_arrays(list(columns), names=names)
            return routing_from_json(described).shards_of(batch, names[0])

    shard = arrow_udf(shards, "int")  # type: ignore[call-overload]
    return df.withColumn(SHARD, shard(*(F.col(quoted(name)) for name in names)))


def by_shard(df: DataFrame, config: ShardConfig, shape: Shape, routing: Routing, only: Sequence[int] | None = None) -> DataFrame:
    """The rows packed, a partition for each shard, or for each of those named, in their order."""
    from pyspark.sql import functions as F

    kept = list(dict.fromkeys([config.key, *shape.value_columns, *([config.ordering] if config.ordering else [])]))
    needed = list(dict.fromkeys([*kept, *_routing_columns(config)]))
    described, key, url = routing.to_json(), config.key, config.url
    places = routing.num_shards if only is None else len(only)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            yield nothing(places)
        yield from packed(batches, described, key, kept, only, url)

    rows = df.select(*map(quoted, needed)).mapInArrow(pack, PACKED)
    return rows.repartitionById(places, F.col(PLACE))


def _routing_columns(config: ShardConfig) -> list[str]:
    return list(dict.fromkeys([config.key, *config.cel_columns]))
