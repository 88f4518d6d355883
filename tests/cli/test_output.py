"""Printing: what people and programs get to see."""

import io
import json
import sys

from contextlib import redirect_stdout

import pytest

from jobfence import Cancellation, JobStatus, SqlJobStore
from jobfence.cli import output
from jobfence.cli.demo.screen import Bar, Lines, Silent, screen
from jobfence.cli.failures import explained, one_line
from jobfence.statemachine.values import CancelOutcome


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_values_become_json(store: SqlJobStore) -> None:
    job = store.get(store.enqueue("a", [(1, 2)], {"k": {"x": None}}))
    found = json.loads(output.compact([job, Cancellation("j", CancelOutcome.TERMINAL)]))
    assert found[0]["args"] == [[1, 2]]
    assert found[0]["kwargs"] == {"k": {"x": None}}
    assert found[0]["status"] == JobStatus.QUEUED.value
    assert found[1] == {"job_id": "j", "outcome": "terminal"}


def test_a_table_is_plain_text_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.print_table(["a", "long header"], [["1", None], ["222", 3]], empty="-")
    assert capsys.readouterr().out == "a    long header\n1    -\n222  3\n"


def test_a_table_is_drawn_on_a_terminal_and_names_are_no_markup(
    terminal: Terminal,
) -> None:
    with redirect_stdout(terminal):
        output.print_table(["a"], [["[bold]x[/bold]"]], empty="-")
    assert "[bold]x[/bold]" in terminal.getvalue()
    assert "━" in terminal.getvalue()


@pytest.mark.parametrize(("columns", "drawn"), [("59", False), ("60", True)])
def test_an_id_is_whole_however_narrow_the_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: str, *, drawn: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    job_id, name = "01a22ca0-0288-76ea-bc4e-05e4d56ed337", "send_welcome_mail"
    with redirect_stdout(terminal):
        output.print_table(["id", "name"], [[job_id, name]], empty="-")
    assert job_id in terminal.getvalue()
    assert name in terminal.getvalue()
    assert ("━" in terminal.getvalue()) is drawn


def test_without_rich_a_terminal_gets_plain_text(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    with redirect_stdout(terminal):
        output.print_table(["a"], [["x"]], empty="-")
    assert terminal.getvalue() == "a\nx\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é", "plain é"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202e", "\\u202e"),
        (None, "-"),
        (0, "0"),
    ],
)
def test_text_cannot_steer_the_terminal(text: str | int | None, shown: str) -> None:
    assert output.shown(text) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, None),
        (999, "0 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_200_000, "2 h"),
        (172_800_000, "2 d"),
    ],
)
def test_ages_are_rounded_down(milliseconds: int | None, shown: str | None) -> None:
    assert output.age(milliseconds) == shown


def test_times_are_utc() -> None:
    assert output.when(None) is None
    assert output.when(0) == "1970-01-01 00:00:00.000Z"
    assert output.when(253_402_300_799_999) == "9999-12-31 23:59:59.999Z"


def test_the_screen_fits_its_stream(terminal: Terminal) -> None:
    with redirect_stdout(terminal), screen(4, silent=True) as silent:
        assert type(silent) is Silent
        silent.say("nothing")
        silent.advance(4)
    assert terminal.getvalue() == ""
    with redirect_stdout(terminal), screen(4, silent=False) as bar:
        assert isinstance(bar, Bar)
        bar.say("killed [red]one[/red]")
        bar.advance(3)
    assert "killed [red]one[/red]" in terminal.getvalue()
    assert "3/4" in terminal.getvalue()


def test_without_a_terminal_each_quarter_is_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with screen(8, silent=False) as lines:
        assert isinstance(lines, Lines)
        for done in (0, 1, 2, 3, 7, 8, 8):
            lines.advance(done)
        lines.say("\x07")
    assert capsys.readouterr().out.splitlines() == [
        "completed 2 of 8",
        "completed 7 of 8",
        "completed 8 of 8",
        "\\x07",
    ]


def test_errors_of_the_system_name_the_file() -> None:
    assert explained(FileNotFoundError(2, "No such file", "x")) == (
        1,
        "x: No such file",
    )
    assert explained(OSError("odd\nerror")) == (1, "odd error")
    assert one_line(ValueError()) == "ValueError"
