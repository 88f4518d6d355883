"""What is made from the table is made anew when the table changes (M20)."""

import shutil

from pathlib import Path

import pytest

from tools.generate import PAGES, ROOT, TLA_MODULE, filled, main

from jobfence.statemachine.diagram import markdown_table, mermaid, tla_module

BEGIN, END = "<!-- generated: transitions:{} -->\n", "<!-- /generated -->\n"


@pytest.fixture
def copy_of_pages(tmp_path: Path) -> Path:
    for name in [*PAGES, TLA_MODULE]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in root.rglob("*.*")
    }


def test_nothing_generated_is_stale(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--check"])
    assert (capsys.readouterr().out, code) == ("", 0)


def test_readers_find_the_diagram_and_the_table() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{mermaid()}```\n" in readme
    page = (ROOT / "docs/state-machine.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{mermaid()}```\n" in page
    assert markdown_table() in page
    assert (ROOT / TLA_MODULE).read_text(encoding="utf-8") == tla_module()


def test_a_stale_file_is_named_and_left_as_it_is_by_a_check(
    copy_of_pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("README.md", TLA_MODULE):
        path = copy_of_pages / name
        path.write_text(
            path.read_text(encoding="utf-8").replace("claim", "grab"), encoding="utf-8"
        )
    before = contents(copy_of_pages)
    assert main(["--check"], copy_of_pages) == 1
    assert capsys.readouterr().out.splitlines() == [
        "stale: README.md",
        f"stale: {TLA_MODULE}",
        "Run `make generate`.",
    ]
    assert contents(copy_of_pages) == before


def test_generating_mends_what_is_stale_or_missing_and_touches_nothing_else(
    copy_of_pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(copy_of_pages)
    readme = copy_of_pages / "README.md"
    stale = before["README.md"].replace("handed_off : claim", "handed_off : grab")
    readme.write_text(stale, encoding="utf-8")
    (copy_of_pages / TLA_MODULE).unlink()
    assert main([], copy_of_pages) == 0
    assert capsys.readouterr().out.splitlines() == [
        "written: README.md",
        f"written: {TLA_MODULE}",
    ]
    assert contents(copy_of_pages) == before
    assert main([], copy_of_pages) == 0
    assert capsys.readouterr().out == ""


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = f"before\n\n{BEGIN.format('diagram')}old\n{END}\nafter \\1 text\n"
    expected = (
        f"before\n\n{BEGIN.format('diagram')}\n```mermaid\n{mermaid()}```\n\n{END}\n"
        "after \\1 text\n"
    )
    assert filled(page, "page") == expected
    assert filled(expected, "page") == expected


def test_a_page_may_have_several_blocks_or_none() -> None:
    page = f"{BEGIN.format('table')}{END}\n{BEGIN.format('diagram')}{END}"
    found = filled(page, "page")
    assert found.index("| M1 |") < found.index("stateDiagram-v2")
    assert found.count(END) == 2
    assert filled("no block\n", "page") == "no block\n"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (BEGIN.format("colours") + END, "no block is called 'transitions:colours'"),
        (BEGIN.format("table"), "needs '<!-- /generated -->'"),
        (END, "needs '<!-- /generated -->'"),
        (BEGIN.format("table") * 2 + END, "needs '<!-- /generated -->'"),
        (BEGIN.format("table").replace(" -->", "-->") + END, "needs '<!-- /gen"),
    ],
    ids=["unknown", "open", "closed", "nested", "mistyped"],
)
def test_a_page_whose_marks_are_wrong_is_refused(page: str, message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        filled(page, "docs/page.md")
    assert str(caught.value).startswith("docs/page.md: ")
    assert message in str(caught.value)
