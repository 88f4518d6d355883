"""Arguments as canonical JSON text (rules E2 and E3)."""

import hashlib
import json
import math
import re

from collections.abc import Mapping, Sequence
from typing import Self, TypeAlias

from jobfence.statemachine.checks import encodable, plain_text
from jobfence.statemachine.errors import InvalidOption, shown

JSON: TypeAlias = (
    "bool | int | float | str | list[JSON] | dict[str, JSON] | None"  # what comes back
)
JSONInput: TypeAlias = (
    "bool | int | float | str | Sequence[JSONInput] | Mapping[str, JSONInput] | None"
)

# Levels of lists and mappings, the outermost counted. Deeper nesting could be written here and then not be read back by a process that is
# deeper in its own stack.
MAX_DEPTH = 200
MAX_TEXT_BYTES = 1024 * 1024
_MAX_PATH = 300


def canonical(value: object, path: str) -> str:
    """
    Return the one JSON text of a value: keys sorted, ASCII, no spaces.

    `path` names the value in a refusal, such as `args[0]['x']`.
    """
    try:
        return _ENCODER.encode(_plain(value, 0))
    except _Unfit as unfit:
        raise InvalidOption(unfit.option(path), unfit.value, unfit.rule) from None


def digest(text: str) -> str:
    """Return the SHA-256 of a text as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def arguments(args: object, kwargs: object) -> tuple[str, str, str]:
    """
    Return the texts of args and kwargs and their common digest.

    The digest does not depend on the job's name. It narrows a search; the full texts
    decide (E3).
    """
    if not isinstance(args, (list, tuple)):
        raise InvalidOption("args", args, "must be a list or tuple of JSON values")
    if not isinstance(kwargs, Mapping):
        raise InvalidOption("kwargs", kwargs, "must be a mapping with string keys")
    args_text, kwargs_text = canonical(args, "args"), canonical(kwargs, "kwargs")
    size = len(args_text) + len(kwargs_text)
    if size > MAX_TEXT_BYTES:
        raise InvalidOption(
            "args and kwargs", size, f"must be at most {MAX_TEXT_BYTES} bytes of JSON"
        )
    return args_text, kwargs_text, digest(f"[{args_text},{kwargs_text}]")


def parse(text: object) -> JSON:
    """
    Read a JSON text back; `ValueError` if it is not one.

    What `canonical` cannot have written is refused (NaN, numbers beyond a float, lone
    surrogates, bottomless nesting): only an edited row holds it, and no job shall.
    """
    if not isinstance(text, str):
        raise ValueError(f"is {type(text).__name__}, not text")  # noqa: TRY004
    if text == "[]":  # most jobs have no args, or no kwargs
        return []
    if text == "{}":
        return {}
    try:
        found: JSON = _DECODER.decode(text)
        if _SURROGATE.search(text):
            _refuse_lone_surrogates(found)
    except RecursionError:
        raise ValueError("nests too deeply") from None
    return found


# An escaped surrogate, or one as it is. Pairs are common (emoji), so this only says
# that a closer look is due.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def _refuse_lone_surrogates(found: JSON) -> None:
    if not encodable(json.dumps(found, ensure_ascii=False)):
        raise ValueError("holds a lone surrogate")


def _refuse_constant(name: str) -> JSON:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{shown(text)} is too large a number")
    return found


# Made once: the functions of `json` make a new one for every call with options.
_ENCODER = json.JSONEncoder(
    sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")
)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


class _Unfit(Exception):
    """A value that JSON cannot carry; collects its path on the way out."""

    def __init__(self, value: object, rule: str, *, what: str = "") -> None:
        super().__init__(rule)
        self.value, self.rule = value, rule
        self._what, self._steps = what, list[object]()

    def inside(self, step: object) -> Self:
        self._steps.append(step)
        return self

    def option(self, root: str) -> str:
        """Name the value: `args[0]['x']`, or, too long to read, without its middle."""
        path = root + "".join(f"[{shown(step)}]" for step in reversed(self._steps))
        if len(path) > _MAX_PATH:
            path = f"{path[: _MAX_PATH // 2]}…{path[-_MAX_PATH // 2 :]}"
        return self._what + path


def _plain(value: object, depth: int) -> JSON:
    """Copy a value in plain types, so that subclasses such as enums are told by it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, "")
    if isinstance(value, int):
        return _integer(int.__int__(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _Unfit(value, "must be a finite number")
        return float.__float__(value)
    if not isinstance(value, (list, tuple, Mapping)):
        raise _Unfit(value, "must be a JSON value")
    if depth == MAX_DEPTH:
        raise _Unfit(value, f"must not nest deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _mapping(value, depth)
    return _list(value, depth)


def _list(value: Sequence[object], depth: int) -> list[JSON]:
    found: list[JSON] = []
    try:
        for each in value:
            found.append(_plain(each, depth + 1))  # noqa: PERF401  len() is the index
    except _Unfit as unfit:
        raise unfit.inside(len(found)) from None
    return found


def _mapping(value: Mapping[object, object], depth: int) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for given, each in value.items():
        if not isinstance(given, str):
            raise _Unfit(given, "must be a string", what="a key of ")
        key = _text(given, "a key of ")
        if key in found:
            raise _Unfit(given, "must not be there twice", what="a key of ")
        try:
            found[key] = _plain(each, depth + 1)
        except _Unfit as unfit:
            raise unfit.inside(key) from None
    return found


def _text(value: str, what: str) -> str:
    found = plain_text(value)
    if not encodable(found):
        raise _Unfit(value, "must not contain a lone surrogate", what=what)
    return found


def _integer(value: int) -> int:
    try:
        str(value)
    except ValueError as problem:
        raise _Unfit(
            f"one of {value.bit_length()} bits", f"is too long a number: {problem}"
        ) from None
    return value
