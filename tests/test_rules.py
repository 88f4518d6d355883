"""Every rule that is named has its line in docs/rules.md, and every line is of use."""

import io
import re
import tokenize

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tools.generate import ROOT

from jobfence.conformance.capabilities import Capability

PAGE = ROOT / "docs" / "rules.md"
SOURCES = sorted((ROOT / "src" / "jobfence").rglob("*.py"))
# This file names ids that need not exist.
TESTS = sorted(set((ROOT / "tests").rglob("*.py")) - {Path(__file__).resolve()})
PAGES = [
    ROOT / "README.md",
    *sorted(set((ROOT / "docs").glob("*.md")) - {PAGE}),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]

_LETTER = "[MECKOBLSTDR]"
_ID = re.compile(rf"(?<![\w#])({_LETTER}\d{{1,2}}b?)\b")
_RANGE = re.compile(rf"\b({_LETTER})(\d{{1,2}})(?:-|–| to )\1(\d{{1,2}})\b")  # noqa: RUF001
_FAMILY = re.compile(rf"\b[Rr]ules? ({_LETTER})\b|\bthe ({_LETTER}) rules\b")
_SECTION = re.compile(rf"^## ({_LETTER}): (.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^\| ([A-Z]\w+) \| (.+) \|$", re.MULTILINE)


def ids(text: str) -> set[str]:
    """Return the rules that a text names, those within ranges too."""
    within = {
        f"{letter}{number}"
        for letter, first, last in _RANGE.findall(text)
        for number in range(int(first), int(last) + 1)
    }
    return {*_ID.findall(text), *within}


def families(text: str) -> set[str]:
    """Return the families that a text names as a whole."""
    return {one or other for one, other in _FAMILY.findall(text)}


def prose(source: str) -> str:
    """Return the comments and strings of a module, docstrings among them."""
    # Where f-strings are tokens of their own, this is their text.
    middle = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)
    kinds = {tokenize.COMMENT, tokenize.STRING, middle}
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(token.string for token in found if token.type in kinds)


def texts(modules: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Give the name and the prose of each module."""
    for module in modules:
        text = prose(module.read_text(encoding="utf-8"))
        yield str(module.relative_to(ROOT)), text


def sections() -> dict[str, str]:
    """Return what the page says, by family."""
    return dict(_SECTION.findall(PAGE.read_text(encoding="utf-8")))


def lines() -> dict[str, str]:
    """Return the line of each rule."""
    return dict(_LINE.findall(PAGE.read_text(encoding="utf-8")))


def unexplained(named: Iterable[tuple[str, str]]) -> list[str]:
    """Say which rules and families are named where, and not explained."""
    known = lines().keys() | sections().keys()
    return [
        f"{where} names {each}"
        for where, text in named
        for each in sorted((ids(text) | families(text)) - known)
    ]


def test_every_rule_that_the_library_names_has_a_line() -> None:
    assert unexplained(texts(SOURCES)) == []


def test_every_rule_that_another_page_names_has_a_line() -> None:
    pages = [(page.name, page.read_text(encoding="utf-8")) for page in PAGES]
    assert unexplained(pages) == []


def test_every_line_is_of_a_rule_that_is_named_in_the_library_or_in_a_test() -> None:
    named = ids("\n".join(text for _, text in texts([*SOURCES, *TESTS])))
    assert lines().keys() - named == set()


def test_each_rule_stands_once_in_the_section_of_its_letter_in_order() -> None:
    for letter, text in sections().items():
        found = [rule for rule, _ in _LINE.findall(text)]
        assert found, letter
        assert {rule[0] for rule in found} == {letter}
        numbers = [(int(rule[1:].rstrip("b")), rule) for rule in found]
        assert numbers == sorted(set(numbers))
    assert sum(len(_LINE.findall(text)) for text in sections().values()) == len(lines())


@pytest.mark.parametrize("capability", Capability)
def test_what_a_store_may_lack_is_said_of_its_rules(capability: Capability) -> None:
    named = ids(capability.meaning) | families(capability.meaning)
    assert named, capability.meaning
    for each in named:
        said = lines().get(each) or sections()[each]
        assert f"`{capability.name}`" in said, each


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Rule M18, case A112", {"M18"}),
        ("rules M7b and L5", {"M7b", "L5"}),
        ("M13, C4-C8; O1", {"M13", "C4", "C5", "C6", "C7", "C8", "O1"}),
        ("(M3 to M5, M12)", {"M3", "M4", "M5", "M12"}),
        ("B1–B3", {"B1", "B2", "B3"}),  # noqa: RUF001  as in prose
        ("noqa: S603, case F70, #C9, UTF8, HM4", set()),
    ],
)
def test_ids_are_found_alone_and_in_ranges(text: str, named: set[str]) -> None:
    assert ids(text) == named


def test_only_comments_and_strings_are_read() -> None:
    source = '"""Rule X, the K rules."""\nM1 = f"{T2} rule M99"  # C77\n'
    assert ids(prose(source)) - {"T2"} == {"M99", "C77"}
    assert families(prose(source)) == {"K"}


def test_a_rule_without_a_line_is_told_with_its_place() -> None:
    named = [("a.py", "Rules M1 and M99, the K rules"), ("b.py", "rule C0")]
    assert unexplained(named) == ["a.py names M99"]
