"""A word about a test that does not end: a store that blocks would block it silently."""

import sys
import sysconfig
import threading

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# Longer than any test takes on a store that answers, sequences on a slow one excepted.
PATIENCE_S = 60.0


@contextmanager
def watched(name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Say once, after `PATIENCE_S`, that this goes on, and in which line it is."""
    thread = threading.get_ident()

    def tell() -> None:
        say(f"{name} has been running for {PATIENCE_S:g} s{_place_of(thread)}")

    timer = threading.Timer(PATIENCE_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _place_of(thread: int) -> str:
    """Return the innermost line that is not the standard library's."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  the way to ask
    while frame is not None and _is_standard(frame):
        frame = frame.f_back
    if frame is None:
        return ""
    code = frame.f_code
    return f", now in {code.co_name} ({Path(code.co_filename).name}:{frame.f_lineno})"


def _is_standard(frame: FrameType) -> bool:
    file = Path(frame.f_code.co_filename)
    inside = Path(sysconfig.get_path("stdlib")) in file.parents
    return inside and "site-packages" not in file.parts
