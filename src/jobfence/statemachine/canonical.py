"""Arguments as canonical JSON text (rules E2 and E3)."""

import hashlib
import json
import math

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from jobfence.statemachine.checks import encodable
from jobfence.statemachine.errors import InvalidOption

JSON: TypeAlias = (
    "bool | int | float | str | list[JSON] | dict[str, JSON] | None"  # what comes back
)
JSONInput: TypeAlias = (
    "bool | int | float | str | Sequence[JSONInput] | Mapping[str, JSONInput] | None"
)

# Deeper nesting could be written here and then not be read back by a process that is
# deeper in its own stack.
MAX_DEPTH = 200
MAX_TEXT_BYTES = 1024 * 1024


def canonical(value: object, path: str) -> str:
    """
    Return the one JSON text of a value: keys sorted, ASCII, no spaces.

    `path` names the value in a refusal, such as `args[0]['x']`.
    """
    return _dump(_plain(value, path, 0))


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


def parse(text: str) -> JSON:
    """
    Read a JSON text back; `ValueError` if it is not one.

    Python's extensions (NaN, Infinity) are refused: only an edited row can hold them.
    """
    found: JSON = json.loads(text, parse_constant=_refuse_constant)
    return found


def _refuse_constant(name: str) -> JSON:
    raise ValueError(f"{name} is not JSON")


def _dump(value: JSON) -> str:
    return json.dumps(
        value, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )


def _plain(value: object, path: str, depth: int) -> JSON:
    if depth > MAX_DEPTH:
        raise InvalidOption(
            path.partition("[")[0],
            type(value).__name__,
            f"must not nest deeper than {MAX_DEPTH} levels",
        )
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (str, int, float)):
        return _scalar(value, path)
    if isinstance(value, (list, tuple)):
        return [
            _plain(each, f"{path}[{index}]", depth + 1)
            for index, each in enumerate(value)
        ]
    if isinstance(value, Mapping):
        return {
            _key(key, path): _plain(each, f"{path}[{key!r}]", depth + 1)
            for key, each in value.items()
        }
    raise InvalidOption(path, value, "must be a JSON value")


def _scalar(value: str | float, path: str) -> JSON:
    """Check a string or number, and drop subclasses such as enums."""
    if isinstance(value, str):
        if not encodable(value):
            raise InvalidOption(path, value, "must not contain a lone surrogate")
        return str.__str__(value)
    if isinstance(value, int):
        plain = int(value)
        try:
            str(plain)
        except ValueError as problem:
            raise InvalidOption(
                path, f"{plain.bit_length()} bits", f"is too long a number ({problem})"
            ) from None
        return plain
    if not math.isfinite(value):
        raise InvalidOption(path, value, "must be a finite number")
    return float(value)


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidOption(f"a key of {path}", key, "must be a string")
    if not encodable(key):
        raise InvalidOption(
            f"a key of {path}", key, "must not contain a lone surrogate"
        )
    return str.__str__(key)
