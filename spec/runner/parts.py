"""
Reads the conjuncts of a definition, so that each can be left out of it.

A conjunct is an item of a list whose items stand below each other. What counts is the
innermost list: who takes an outer item out takes out all that is in it. Lists that are
denied (`~`) or assumed (before `=>`) are no promises: without an item they promise more.
"""

import re

from collections.abc import Iterator
from dataclasses import dataclass

# What a list of conjuncts may follow on its line.
_OPENER = re.compile(r"(?:==|=>|:|\bIN|\\/|/\\|\(|~|^)\s*$")
_COMMENT = re.compile(r"\(\*.*?\*\)|\\\*[^\n]*", re.DOTALL)
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Conjunct:
    """An item of a list: where it is in the text, its column, and what it says."""

    start: int
    end: int
    column: int
    text: str


def conjuncts(text: str, name: str) -> list[Conjunct]:
    """Return the innermost conjuncts that this definition promises."""
    masked = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    lists = list(_lists(masked, *_definition(masked, name)))
    no_promises = [each for each in lists if not _promised(masked, each)]
    items = [
        item
        for each in lists
        for item in each
        if not any(
            no[0].start <= item.start and item.end <= no[-1].end for no in no_promises
        )
    ]
    return sorted(
        (item for item in items if not any(_within(each, item) for each in items)),
        key=lambda item: item.start,
    )


def without(text: str, name: str, place: int) -> str:
    """Return the text with this conjunct of the definition left out."""
    found = conjuncts(text, name)[place]
    return f"{text[: found.start]} TRUE{text[found.end :]}"


def is_defined(text: str, name: str) -> bool:
    """Whether the module itself defines this name."""
    return _head(name).search(text) is not None


def _head(name: str) -> re.Pattern[str]:
    return re.compile(rf"^(?:ASSUME )?{name}(?:\([^)]*\))? ==", re.MULTILINE)


def _definition(text: str, name: str) -> tuple[int, int]:
    head = _head(name).search(text)
    if head is None:
        raise ValueError(f"no definition of {name}")
    following = re.compile(r"^\S", re.MULTILINE).search(text, head.end())
    return head.start(), following.start() if following else len(text)


def _lists(text: str, start: int, end: int) -> Iterator[list[Conjunct]]:
    """Yield each list: items below each other, with nothing but blanks between them."""
    open_lists: list[list[Conjunct]] = []
    for found in re.finditer(r"/\\", text[start:end]):
        item = _item(text, start + found.start(), end)
        if item is None:
            continue
        for each in open_lists:
            last = each[-1]
            gap = text[last.end : item.start - 2]
            if last.column == item.column and not gap.strip():
                each.append(item)
                break
        else:
            open_lists.append([item])
    yield from open_lists


def _item(text: str, mark: int, limit: int) -> Conjunct | None:
    line = text.rfind("\n", 0, mark) + 1
    if not _OPENER.search(text[line:mark]):
        return None  # between two terms of one line
    column = mark - line
    end = _end(text, mark + 2, column, limit)
    said = " ".join(text[mark + 2 : end].split())
    return Conjunct(mark + 2, end, column, said)


def _end(text: str, start: int, column: int, limit: int) -> int:
    """Return where the item ends: a line further left, or a bracket around the list."""
    depth, at = 0, start
    while at < limit:
        letter = text[at]
        if letter in _CLOSERS:
            depth += 1
        elif letter in _CLOSERS.values():
            depth -= 1
            if depth < 0:
                break
        elif letter == "\n":
            after = limit - len(text[at:limit].lstrip())
            if after >= limit or after - text.rfind("\n", 0, after) - 1 <= column:
                break
        at += 1
    return start + len(text[start:at].rstrip())


def _promised(text: str, items: list[Conjunct]) -> bool:
    first, last = items[0], items[-1]
    before = text[: first.start - 2].rstrip()
    after = text[last.end :].lstrip()
    return not before.endswith("~") and not re.match(r"\)\s*=>", after)


def _within(inner: Conjunct, outer: Conjunct) -> bool:
    return inner is not outer and outer.start <= inner.start and inner.end <= outer.end
