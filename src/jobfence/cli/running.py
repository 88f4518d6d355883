"""Running an application's worker until it is told to stop."""

import argparse
import logging
import sys

from jobfence.cli.failures import OK, UsageError, one_line
from jobfence.cli.loading import load
from jobfence.dispatch import JobApp, Worker, WorkerOptions
from jobfence.dispatch.worker import DEFAULT_GRACE_S


def run_worker(args: argparse.Namespace) -> int:
    """Run a worker; SIGTERM and Ctrl-C drain it."""
    app = _app(args.app)
    worker = Worker(app, **_options(args))
    logging.basicConfig(
        level=args.log_level.upper(),
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    try:
        worker.run(DEFAULT_GRACE_S if args.grace is None else args.grace)
    finally:
        app.close(0)
    return OK


def _app(reference: str) -> JobApp:
    found = load("--app", reference)
    if callable(found):
        try:
            found = found()
        except Exception as error:
            raise UsageError(
                f"--app: calling {reference} raised {type(error).__name__}: "
                f"{one_line(error)}"
            ) from error
    if not isinstance(found, JobApp):
        raise UsageError(
            f"--app: {reference} is {type(found).__name__}, and must be a JobApp"
        )
    if not found.registry.names:
        raise UsageError(
            f"--app: {reference} has no jobs, and would fail each one it claims; "
            f"import the modules that register them"
        )
    return found


def _options(args: argparse.Namespace) -> WorkerOptions:
    options = WorkerOptions(single_owner=args.single_owner, queues=args.queue)
    if args.concurrency is not None:
        options["concurrency"] = args.concurrency
    if args.worker_id is not None:
        options["worker_id"] = args.worker_id
    if args.lease_ms is not None:
        options["lease_ms"] = args.lease_ms
    if args.poll_ms is not None:
        options["poll_ms"] = args.poll_ms
    if args.timeout_ms is not None:
        options["timeout_ms"] = args.timeout_ms
    return options
