"""What a name of the JVM stands for is asked once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from lakewright.lake import Lake


def test_a_column_is_one_call(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = lake.spark.range(3)
    first = rows.select("id", F.upper(F.lit("a")))
    sent: list[str] = []
    send = ClientServerConnection.send_command
    monkeypatch.setattr(ClientServerConnection, "send_command", lambda self, command: sent.append(command) or send(self, command))
    again = rows.select("id", F.upper(F.lit("a")))
    assert sent and not [command for command in sent if command.startswith("r\n")]
    assert first.collect() == again.collect() == [(0, "A"), (1, "A"), (2, "A")]


def test_an_unknown_member_is_still_told(lake: Lake) -> None:
    with pytest.raises(Py4JError, match="no_such_function does not exist"):
        lake.spark._jvm.functions.no_such_function  # type: ignore[union-attr]  # noqa: B018
