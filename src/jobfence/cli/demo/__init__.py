"""`jobfence demo`: real workers, one killed and one overtaken, and nothing lost."""

import argparse

from pathlib import Path

from jobfence.cli.arguments import Commands, add_command, add_json, add_url

MOST_WORKERS = 16


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands, "demo", run, "see jobs survive a killed and a stopped worker"
    )
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="PATH",
        help="the files to work on; default: those of the current directory",
    )
    add_url(parser)
    parser.set_defaults(url=None)  # never a database that only the environment names
    parser.add_argument(
        "--workers", type=int, default=3, help="processes; default: %(default)s"
    )
    parser.add_argument("--keep", action="store_true", help="keep the tables")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the demo."""
    from jobfence.cli.demo.command import demonstrate  # noqa: PLC0415  SQLAlchemy

    return demonstrate(args)
