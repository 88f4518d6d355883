"""The entry point: parse, run, and turn what goes wrong into a sentence."""

import contextlib
import os
import platform
import re
import sys
import traceback

from collections.abc import Sequence

from jobfence import __version__
from jobfence.cli import (
    audit,
    conform,
    demo,
    diagram,
    operations,
    streams,
    worker,
)
from jobfence.cli.arguments import URL_VARIABLE, Parser
from jobfence.cli.failures import (
    FOUND_WRONG,
    USAGE,
    UsageError,
    explained,
)
from jobfence.statemachine.hiding import without_secrets

EPILOG = "exit codes: 0 all is well, 1 found something wrong, 2 wrong command line"
_URL = re.compile(r"\w[\w+]*://.*", re.DOTALL)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code; only Ctrl-C is raised."""
    streams.make_ready()
    parser = make_parser()
    try:
        code = _command(parser, arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (`head`) has gone
        code = FOUND_WRONG
    except Exception as error:  # noqa: BLE001  every error becomes a sentence
        if "--traceback" in arguments:
            _tell("".join(traceback.format_exception(error)), arguments)
        code, sentence = explained(error)
        hint = f" (try: {parser.prog} --help)" if isinstance(error, UsageError) else ""
        _tell(f"jobfence: {sentence}{hint}", arguments)
    streams.let_go_of_output()
    return code


def _command(parser: Parser, arguments: Sequence[str]) -> int:
    try:
        args = parser.parse_args(arguments)
    except SystemExit as done:  # --help, --version
        return done.code if isinstance(done.code, int) else USAGE
    code: int = args.run(args)
    return code


def make_parser() -> Parser:
    """Make the parser of all commands."""
    parser = Parser(
        prog="jobfence",
        description="An explicit job state machine and a durable, fenced job store.",
        epilog=EPILOG,
    )
    version = f"jobfence {__version__}, Python {platform.python_version()}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=Parser
    )
    for module in (demo, worker, operations, audit, conform, diagram):
        module.register(commands)
    return parser


def _tell(text: str, arguments: Sequence[str]) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(without_secrets(text, _urls(arguments)), file=sys.stderr)


def _urls(arguments: Sequence[str]) -> list[str]:
    """Return every URL that was given, where it does not belong too."""
    given = [*arguments, os.environ.get(URL_VARIABLE, "")]
    return [match[0] for each in given if (match := _URL.search(each))]
