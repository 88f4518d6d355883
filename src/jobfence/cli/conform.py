"""`jobfence conform`: judge any job store by the suite that ships with the library."""

import argparse
import importlib.util
import sys

from pathlib import Path

from jobfence.cli.arguments import Commands, add_command
from jobfence.cli.failures import UsageError
from jobfence.cli.loading import check_reference, look_here_too

REPORTS = (".html", ".json")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands, "conform", run, "judge a store of yours by the conformance suite"
    )
    parser.add_argument(
        "--adapter",
        required=True,
        metavar="MODULE:NAME",
        help="a JobStoreSuite, a class with open_store, or a function like it",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write what was found, .html or .json",
    )
    parser.add_argument(
        "-k", metavar="EXPRESSION", help="only these tests, as pytest's"
    )
    parser.add_argument(
        "--maxfail",
        type=int,
        default=0,
        metavar="N",
        help="end after so many failures, as pytest's (0: run everything)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="try other sequences of calls; the same number tries the same (0)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the suite; what it finds is printed as it comes."""
    check_reference("--adapter", args.adapter)
    report: Path | None = args.report
    if report is not None and report.suffix not in REPORTS:
        raise UsageError(f"--report must end in .html or .json, and {report} does not")
    if report is not None and not report.absolute().parent.is_dir():
        raise UsageError(f"--report: there is no directory {report.parent}")
    look_here_too()
    for needed in ("pytest", "hypothesis"):
        if importlib.util.find_spec(needed) is None:
            raise UsageError(
                f"conform needs {needed}, which is not installed; "
                f"pip install 'jobfence[conformance]'"
            )
    from jobfence.conformance.run import run as judge  # noqa: PLC0415  an extra

    # By its name: it has to be imported after pytest, for assertions to be explained.
    arguments = [f"--maxfail={args.maxfail}"]
    if args.k is not None:
        arguments += ["-k", args.k]
    code = judge(args.adapter, report, seed=args.seed, arguments=arguments)
    sys.stdout.flush()
    return code
