from __future__ import annotations

import logging

import pytest

from lakewright.errors import InvalidOption
from lakewright.progress import Progress, duration, summary


def test_phases_and_summary_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakewright"), Progress("append", "nyc.trips", mode="log") as progress:
        with progress.phase("plan"):
            pass
        progress.done(summary("append", "nyc.trips", 123, rows=10_000, files=3))
    assert [m.rsplit(" ", 2)[0] for m in caplog.messages] == [
        "append nyc.trips: plan took",
        "appended 10,000 rows in 3 files to nyc.trips, snapshot 123,",
    ]


def test_a_failure_says_in_which_phase(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "lakewright"),
        pytest.raises(ValueError),
        Progress("append", "nyc.trips", mode="log") as progress,
        progress.phase("commit"),
    ):
        raise ValueError
    assert "failed in commit" in caplog.text


def test_a_terminal_gets_one_line_that_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("append", "nyc.trips", mode="rich") as progress:
        with progress.phase("write"):
            progress.update("3 files")
        progress.done("appended [2] rows")
    assert capsys.readouterr().err.startswith("appended [2] rows, 0.")


def test_off_says_nothing(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.INFO, "lakewright"), Progress("append", "nyc.trips", mode="off") as progress:
        progress.done("appended")
    assert (caplog.text, capsys.readouterr().err) == ("", "")


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWRIGHT_PROGRESS", "off")
    assert Progress("append", "t").mode == "off"
    assert Progress("append", "t", mode="log").mode == "log"
    monkeypatch.delenv("LAKEWRIGHT_PROGRESS")
    assert Progress("append", "t").mode == "log"


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidOption, match="auto, rich, log, off"):
        Progress("append", "t", mode="loud")


def test_words() -> None:
    assert summary("append", "t", None) == "append t: nothing to write, the table is as before"
    assert summary("overwrite", "t", 1, rows=1, files=1, deleted_rows=2) == "overwrote 1 row in 1 file in t, replacing 2 rows, snapshot 1"
    assert summary("compact", "t", 1, files=2, removed_files=1200) == "compacted 1,200 files of t into 2, snapshot 1"
    assert (duration(2.34), duration(125)) == ("2.3 s", "2 min 5 s")
