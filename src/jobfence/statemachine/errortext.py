"""Error texts that can always be stored (rule B3)."""

import json
import re
import traceback

MAX_ERROR_BYTES = 64 * 1024
_CUT = "\n… cut …\n"
_HALF = (MAX_ERROR_BYTES - len(_CUT.encode())) // 2
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


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
    text = str.__str__(text)  # a subclass may do anything when it is cut
    # A character is a byte or more, so no character beyond these can be kept: a text of
    # many megabytes is not walked through.
    head, tail = _clean(text[:MAX_ERROR_BYTES]), _clean(text[-MAX_ERROR_BYTES:])
    if len(text) <= MAX_ERROR_BYTES and len(head.encode()) <= MAX_ERROR_BYTES:
        return head
    # What "ignore" drops is the one character that the cut went through.
    return (
        head.encode()[:_HALF].decode(errors="ignore")
        + _CUT
        + tail.encode()[-_HALF:].decode(errors="ignore")
    )


def _clean(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def _describe(error: object) -> str:
    # Every step may run code of the error's own class, which may raise anything.
    try:
        if isinstance(error, str):
            return error
        if isinstance(error, BaseException):
            return "".join(traceback.format_exception(error))
        return _json_or_repr(error)
    except Exception as problem:  # noqa: BLE001  rule B3
        # `object.__repr__` runs no code of the class, nor of its metaclass.
        return f"{object.__repr__(error)} without a text: {object.__repr__(problem)}"


def _json_or_repr(error: object) -> str:
    try:
        return json.dumps(error, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return repr(error)
