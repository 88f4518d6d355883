"""What goes wrong on the command line, as one sentence and an exit code."""

from jobfence.statemachine.errors import (
    InvalidOption,
    JobfenceError,
    MissingDriver,
    UnsupportedCapability,
)

OK, FOUND_WRONG, USAGE = 0, 1, 2


class CommandFailed(Exception):
    """A command that ends here, with its exit code and a sentence."""

    code = FOUND_WRONG


class UsageError(CommandFailed):
    """The command line itself is wrong."""

    code = USAGE


def explained(error: Exception) -> tuple[int, str]:
    """Return the exit code and the sentence for an error that ends a command."""
    if isinstance(error, CommandFailed):
        return error.code, one_line(error)
    if isinstance(error, InvalidOption | MissingDriver | UnsupportedCapability):
        return USAGE, one_line(error)
    if isinstance(error, JobfenceError):
        return FOUND_WRONG, one_line(error)
    if type(error).__module__.partition(".")[0] == "sqlalchemy":
        # By its name: a command that needs no database must not import SQLAlchemy.
        found = getattr(error, "orig", None) or error
        return FOUND_WRONG, f"the database did not do it: {one_line(found)}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return FOUND_WRONG, f"{where}{error.strerror or one_line(error)}"
    sentence = (
        f"unexpected {type(error).__name__}: {one_line(error)}; run it again with "
        f"--traceback and report what it says"
    )
    return FOUND_WRONG, sentence


def one_line(error: BaseException) -> str:
    """Return an error's message without its line ends."""
    return " ".join(str(error).split()) or type(error).__name__
