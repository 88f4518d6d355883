"""What README and documentation show is run, as written."""

import re
import shlex

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.generate import ROOT

from jobfence.cli import main
from jobfence.cli.main import make_parser

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"^\$ (jobfence|make) ([^#\n]*)", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """Return a page's blocks in a language; other text as empty lines, for tracebacks."""
    text = page.read_text(encoding="utf-8")
    return [
        "\n" * text[: match.start(2)].count("\n") + match[2]
        for match in _BLOCK.finditer(text)
        if match[1] == language
    ]


PAGES_WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]


@pytest.fixture
def namespace() -> Iterator[dict[str, object]]:
    """Give what a page's blocks share, and close what they leave open."""
    names: dict[str, object] = {"__name__": "page"}
    yield names
    for each in names.values():
        for end in ("close", "dispose"):
            if hasattr(each, end) and not isinstance(each, type):
                getattr(each, end)()


@pytest.mark.parametrize("page", PAGES_WITH_PYTHON, ids=lambda page: page.name)
def test_python_on_a_page_runs_as_it_is_written(
    page: Path,
    namespace: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec", dont_inherit=True), namespace)  # noqa: S102


def test_the_readme_shows_a_refused_completion() -> None:
    first = blocks(ROOT / "README.md", "python")[0]
    assert "assert store.complete(job_id, slow.handoff_id).stale" in first
    assert len([line for line in first.splitlines() if line.strip()]) <= 15


def anchors(page: Path) -> set[str]:
    """Return what GitHub and MyST call the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title.lower()) for title in titles]
    return {re.sub(r"\s", "-", title.strip()) for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        found = page.parent / name if name else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


COMMANDS = sorted(
    {
        (match[1], match[2].strip())
        for page in PAGES
        for block in blocks(page, "console")
        for match in _COMMAND.finditer(block)
    }
)


@pytest.mark.parametrize(("program", "arguments"), COMMANDS)
def test_commands_on_a_page_exist_with_their_options(
    program: str, arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{arguments.split(maxsplit=1)[0]}:", makefile, re.MULTILINE)
    elif arguments == "--help":
        assert main(["--help"]) == 0
    else:
        assert callable(make_parser().parse_args(shlex.split(arguments)).run)
