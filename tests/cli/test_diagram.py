"""`jobfence diagram`: the table of transitions, in three forms."""

import pytest

from jobfence.statemachine.diagram import markdown_table, mermaid, tla_module
from tests.cli.support import Runner, run_process


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], mermaid()),
        (["--format", "mermaid"], mermaid()),
        (["--format", "markdown"], markdown_table()),
        (["--format", "tla"], tla_module()),
    ],
)
def test_the_table_is_printed_as_it_is(
    jobfence: Runner, options: list[str], text: str
) -> None:
    ran = jobfence("diagram", *options)
    assert (ran.code, ran.out, ran.err) == (0, text, "")


def test_an_arrow_reaches_a_terminal_that_cannot_show_it() -> None:
    ran = run_process("diagram", "--format", "markdown", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.err) == (0, "")
    assert "\\u2192" in ran.out
