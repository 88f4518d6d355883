"""Standard streams that are missing, closed by their reader, or narrow."""

import contextlib
import io
import os
import sys


def make_ready() -> None:
    """
    Let every standard stream be written to, or read from, whatever it is.

    One that was closed before Python began is None and its number free: a database file
    would get that number, and what a library prints go into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            os.set_inheritable(nothing, True)  # noqa: FBT003  it takes no name
            setattr(sys, name, os.fdopen(nothing, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        # A job's name may hold what the terminal's encoding cannot show.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def let_go_of_output() -> None:
    """Write out what is printed; what nobody takes any more, Python must not miss."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
