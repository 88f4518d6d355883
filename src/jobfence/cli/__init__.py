"""The command line: `jobfence`, also `python -m jobfence`."""

from jobfence.cli.main import main

__all__ = ["main"]
