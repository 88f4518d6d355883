"""Error texts that can always be stored (rule B3)."""

import json
import traceback

MAX_ERROR_BYTES = 64 * 1024
_CUT = "\n… cut …\n"


def error_text(error: object) -> str:
    """
    Return the text to store for a failure; never raises because of it.

    An exception gives its traceback, a string itself, anything else its JSON or repr.
    NUL and lone surrogates become U+FFFD. A text over 64 KiB of UTF-8 loses its
    middle: a traceback says where it began at one end and what happened at the other.
    """
    return fit(_describe(error))


def fit(text: str) -> str:
    """Make any string storable: clean, and at most 64 KiB of UTF-8."""
    clean = text.replace("\0", "\ufffd")
    raw = clean.encode("utf-8", "surrogatepass")
    if len(raw) != len(clean):
        clean = "".join(
            "\ufffd" if "\ud800" <= each <= "\udfff" else each for each in clean
        )
        raw = clean.encode()
    if len(raw) <= MAX_ERROR_BYTES:
        return clean
    room = MAX_ERROR_BYTES - len(_CUT.encode())
    head, tail = raw[: room // 2], raw[len(raw) - room // 2 :]
    return head.decode(errors="ignore") + _CUT + tail.decode(errors="ignore")


def _describe(error: object) -> str:
    # Every step may run code of the error's own class, which may raise anything.
    try:
        if isinstance(error, str):
            return str.__str__(error)
        if isinstance(error, BaseException):
            return "".join(traceback.format_exception(error))
        return _json_or_repr(error)
    except Exception as problem:  # noqa: BLE001  rule B3
        return f"<{type(error).__name__} without a text: {type(problem).__name__}>"


def _json_or_repr(error: object) -> str:
    try:
        return json.dumps(error, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return repr(error)
