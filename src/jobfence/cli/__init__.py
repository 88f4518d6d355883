"""The command line: `jobfence`, also `python -m jobfence`."""

import sys

from collections.abc import Sequence

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; no error is raised."""
    try:
        # In here, so that Ctrl-C while modules are imported leaves no traceback either.
        from jobfence.cli.main import run  # noqa: PLC0415

        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("jobfence: interrupted", file=sys.stderr)
        return INTERRUPTED
