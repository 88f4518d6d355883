"""`jobfence worker`: run an application's jobs until told to stop."""

import argparse

from jobfence.cli.arguments import Commands, add_command, seconds

LEVELS = ("debug", "info", "warning", "error")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "worker", run, "run an application's jobs")
    parser.add_argument(
        "--app",
        required=True,
        metavar="MODULE:NAME",
        help="the JobApp, or a function that makes one, such as shop.jobs:app",
    )
    parser.add_argument("--concurrency", type=int, help="jobs at once; default: 10")
    parser.add_argument(
        "--queue", action="append", help="take jobs of this queue only; repeatable"
    )
    parser.add_argument("--worker-id", help="default: host, process and a random part")
    parser.add_argument("--lease-ms", type=int, help="default: 60000")
    parser.add_argument("--poll-ms", type=int, help="default: 1000")
    parser.add_argument("--timeout-ms", type=int, help="for jobs without their own")
    parser.add_argument(
        "--single-owner",
        action="store_true",
        help="own the database alone: recover every handed-off job at start",
    )
    parser.add_argument(
        "--grace",
        type=seconds,
        metavar="SECONDS",
        help="how long SIGTERM waits for running jobs; default: 30",
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info")


def run(args: argparse.Namespace) -> int:
    """Run a worker."""
    from jobfence.cli.running import run_worker  # noqa: PLC0415  asyncio, processes

    return run_worker(args)
