"""Reads TLA+ values as TLC prints them, and says how two states differ."""

import re

from collections.abc import Iterator, Mapping
from typing import TypeAlias

Value: TypeAlias = (
    "int | bool | str | tuple[Value, ...] | frozenset[Value] | Mapping[Value, Value]"
)

_TOKEN = re.compile(r'\s*("[^"]*"|<<|>>|\|->|:>|@@|[\[\]{}(),]|-?\w+)')
_CLOSE = {"<<": ">>", "{": "}", "[": "]", "(": ")"}


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def _take(self) -> str:
        self._at += 1
        word: str = self._tokens[self._at - 1]
        return word

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def value(self) -> Value:
        word = self._take()
        if word in _CLOSE:
            return self._collection(word)
        if word.startswith('"'):
            return word[1:-1]
        if word in ("TRUE", "FALSE"):
            return word == "TRUE"
        return int(word) if word.lstrip("-").isdigit() else word

    def _collection(self, opening: str) -> Value:
        if opening in ("[", "("):
            return dict(self._pairs(_CLOSE[opening]))
        items: list[Value] = []
        while self._peek() != _CLOSE[opening]:
            items.append(self.value())
            if self._peek() == ",":
                self._take()
        self._take()
        return tuple(items) if opening == "<<" else frozenset(items)

    def _pairs(self, closing: str) -> Iterator[tuple[Value, Value]]:
        while self._peek() != closing:
            key = self.value()
            self._take()  # |-> in a record, :> in a function
            yield key, self.value()
            if self._peek() in (",", "@@"):
                self._take()
        self._take()


def parse_value(text: str) -> Value:
    """Return a TLA+ value; records and functions become mappings."""
    return _Reader(text).value()


def differences(
    before: Value, after: Value, path: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield each part that changed: where it is, and from what to what."""
    if before == after:
        return
    old, new = _parts(before), _parts(after)
    if old is None or new is None or old.keys() != new.keys():
        yield path, f"{show(before)} -> {show(after)}"
        return
    for key in old:
        field = isinstance(key, str) and isinstance(before, Mapping)
        step = f".{key}" if field else f"[{show(key)}]"
        yield from differences(old[key], new[key], path + step)


def show(value: Value) -> str:
    """Return the value in one short line, as TLA+ writes it."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, tuple):
        return f"<<{', '.join(map(show, value))}>>"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(show, value)))}}}"
    if isinstance(value, Mapping):
        pairs = (f"{show(key)} |-> {show(each)}" for key, each in value.items())
        return f"[{', '.join(pairs)}]"
    return str(value)


def _parts(value: Value) -> Mapping[Value, Value] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple):
        return dict(enumerate(value, start=1))
    return None
