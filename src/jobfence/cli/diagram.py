"""`jobfence diagram`: the table of transitions as text."""

import argparse

from jobfence.cli.arguments import Commands, add_command
from jobfence.cli.failures import OK
from jobfence.statemachine.diagram import markdown_table, mermaid, tla_module

FORMATS = {"mermaid": mermaid, "markdown": markdown_table, "tla": tla_module}


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "diagram", run, "print the state machine")
    parser.add_argument(
        "--format", choices=FORMATS, default="mermaid", help="default: %(default)s"
    )


def run(args: argparse.Namespace) -> int:
    """Print it."""
    print(FORMATS[args.format](), end="")
    return OK
