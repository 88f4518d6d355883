"""What an operator does to a database: look, cancel, run again, prune, pause."""

import argparse

from dataclasses import fields

from jobfence.cli import output
from jobfence.cli.arguments import (
    Commands,
    Parser,
    Run,
    add_command,
    add_json,
    add_tables,
    add_url,
    duration_ms,
)
from jobfence.cli.failures import OK, CommandFailed
from jobfence.cli.looking import Filters, newest, waits_for
from jobfence.cli.stores import make_store, open_store
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import CancelOutcome, Job
from jobfence.store.contract import (
    CANCELLED_TTL_MS,
    COMPLETED_TTL_MS,
    DAY_MS,
    FAILED_TTL_MS,
)


def register(commands: Commands) -> None:
    """Add the commands."""
    parser = _add(commands, "migrate", migrate, "make or upgrade the tables")
    parser.add_argument(
        "--sql", action="store_true", help="print the statements; connect to nothing"
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if it is needed"
    )
    _add(commands, "status", status, "count jobs by status and by queue")
    parser = _add(commands, "list", list_jobs, "list jobs by creation time")
    parser.add_argument("--status", choices=[status.value for status in JobStatus])
    parser.add_argument("--queue")
    parser.add_argument("--name", help="the job's name")
    parser.add_argument("--limit", type=int, default=100, help="default: %(default)s")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--after", metavar="JOB_ID", help="begin behind this job")
    begin.add_argument(
        "--newest", action="store_true", help="begin with the job created last"
    )
    _add_for_job(commands, "show", show, "show one job")
    _add_for_job(
        commands, "cancel", cancel, "cancel a queued job; ask a running one to end"
    )
    _add_for_job(commands, "requeue", requeue, "run an ended job again, as a new job")
    parser = _add(commands, "prune", prune, "delete ended jobs by age")
    for ended, ttl_ms in (
        (JobStatus.COMPLETED, COMPLETED_TTL_MS),
        (JobStatus.FAILED, FAILED_TTL_MS),
        (JobStatus.CANCELLED, CANCELLED_TTL_MS),
    ):
        parser.add_argument(
            f"--{ended}",
            type=duration_ms,
            default=ttl_ms,
            metavar="AGE",
            help=f"such as 12h, or never; default: {ttl_ms // DAY_MS}d",
        )
    _add_for_queue(commands, "pause", pause, "stop claims from a queue")
    _add_for_queue(commands, "resume", resume, "let a queue be claimed from again")


def migrate(args: argparse.Namespace) -> int:
    """Make, upgrade, check or print the tables (S1, S4)."""
    if args.sql:
        return _print_sql(args)
    with open_store(args, create=not args.check) as store:
        from jobfence.store.sql.schema import VERSION  # noqa: PLC0415  SQLAlchemy

        names = sorted(
            table.name for table in store.tables.tables_for(store.engine.dialect.name)
        )
    if args.json:
        output.print_json({"version": VERSION, "tables": names})
    else:
        print(f"{len(names)} tables {args.table_prefix}* are at version {VERSION}")
    return OK


def _print_sql(args: argparse.Namespace) -> int:
    from jobfence.store.sql.readiness import ddl  # noqa: PLC0415  SQLAlchemy

    store = make_store(args)
    try:
        statements = list(ddl(store.tables, store.engine.dialect))
    finally:
        store.close()
    if args.json:
        output.print_json({"statements": statements})
    else:
        print(";\n\n".join(statements) + ";")
    return OK


def status(args: argparse.Namespace) -> int:
    """Print figures of the whole and of each queue (R2)."""
    with open_store(args) as store:
        counts, queues = store.counts(), store.queue_stats()
    if args.json:
        output.print_json({"counts": counts, "queues": queues})
        return OK
    output.print_table(["status", "jobs"], list(counts.items()), empty="")
    print()
    output.print_table(
        ["queue", *JobStatus, "cap", "active", "oldest due", "paused"],
        [
            [
                each.queue,
                *(each.counts.get(status, 0) for status in JobStatus),
                each.max_concurrent,
                each.active,
                output.age(each.oldest_due_age_ms),
                "paused" if each.paused else None,
            ]
            for each in queues
        ],
        empty="no queues yet",
    )
    return OK


def list_jobs(args: argparse.Namespace) -> int:
    """Print a page of jobs (O2)."""
    status = None if args.status is None else JobStatus(args.status)
    with open_store(args) as store:
        if args.newest:
            jobs = newest(store, Filters(status, args.queue, args.name), args.limit)
        else:
            jobs = store.list_jobs(
                status=status,
                queue=args.queue,
                name=args.name,
                limit=args.limit,
                after=args.after,
            )
    if args.json:
        output.print_json(jobs)
        return OK
    headers = ["id", "name", "queue", "status", "attempts", "scheduled", "worker"]
    rows: list[list[output.Cell]] = [
        [
            job.id,
            job.name,
            job.queue,
            job.status,
            job.attempts,
            output.when(job.scheduled_at_ms),
            job.worker_id,
        ]
        for job in jobs
    ]
    if any(job.last_error for job in jobs):
        headers.append("last error")
        for row, job in zip(rows, jobs, strict=True):
            row.append(output.last_line(job.last_error))
    output.print_table(headers, rows, empty="no such jobs")
    return OK


def show(args: argparse.Namespace) -> int:
    """Print one job."""
    with open_store(args) as store:
        job = _found(store.get(args.job_id), args.job_id)
        reasons = [] if args.json else waits_for(store, job)
    if args.json:
        output.print_json(job)
        return OK
    for field in fields(job):
        value = getattr(job, field.name)
        if field.name.endswith("_at_ms"):
            value = output.when(value)
        name = field.name.removesuffix("_ms") if "_at_" in field.name else field.name
        if name == "last_error" and value is not None:
            print(f"{name}:")
            print("\n".join(f"    {output.shown(line)}" for line in value.splitlines()))
        elif value is not None:
            text = value if isinstance(value, str) else output.compact(value)
            print(f"{name}: {output.shown(text)}")
    for reason in reasons:
        print(f"waits for: {output.shown(reason)}")
    return OK


def cancel(args: argparse.Namespace) -> int:
    """Cancel a job (R3)."""
    with open_store(args) as store:
        found = store.cancel(args.job_id)
    if args.json:
        output.print_json(found)
    match found.outcome:
        case CancelOutcome.CANCELLED:
            text = "cancelled"
        case CancelOutcome.REQUESTED:
            text = "it runs; it was asked to end, and will not run again"
        case CancelOutcome.TERMINAL:
            raise CommandFailed(f"job {args.job_id} has ended already")
        case _:
            raise CommandFailed(f"there is no job {args.job_id}")
    if not args.json:
        print(f"job {args.job_id}: {text}")
    return OK


def requeue(args: argparse.Namespace) -> int:
    """Run an ended job again (R5)."""
    with open_store(args) as store:
        job = _found(store.get(args.job_id), args.job_id)
        try:
            new_id = store.requeue(job.id)
        except InvalidOption as error:
            # Not the command line is wrong, but what was found.
            raise CommandFailed(
                f"job {job.id} is {job.status}: only an ended job can run again"
            ) from error
    if args.json:
        output.print_json({"job_id": new_id, "origin_id": job.id})
    else:
        print(new_id)
    return OK


def prune(args: argparse.Namespace) -> int:
    """Delete ended jobs (R1)."""
    with open_store(args) as store:
        count = store.prune_terminal(
            completed_ttl_ms=args.completed,
            failed_ttl_ms=args.failed,
            cancelled_ttl_ms=args.cancelled,
        )
    if args.json:
        output.print_json({"deleted": count})
    else:
        print(f"{count} jobs deleted")
    return OK


def pause(args: argparse.Namespace) -> int:
    """Pause a queue (R4)."""
    return _set_paused(args, paused=True)


def resume(args: argparse.Namespace) -> int:
    """Resume a queue (R4)."""
    return _set_paused(args, paused=False)


def _set_paused(args: argparse.Namespace, *, paused: bool) -> int:
    with open_store(args) as store:
        (store.pause_queue if paused else store.resume_queue)(args.queue)
    if args.json:
        output.print_json({"queue": args.queue, "paused": paused})
    else:
        print(f"queue {output.shown(args.queue)} {'paused' if paused else 'resumed'}")
    return OK


def _found(job: Job | None, job_id: str) -> Job:
    if job is None:
        raise CommandFailed(f"there is no job {job_id}")
    return job


def _add(commands: Commands, name: str, run: Run, summary: str) -> Parser:
    parser = add_command(commands, name, run, summary)
    add_url(parser)
    add_tables(parser)
    add_json(parser)
    return parser


def _add_for_job(commands: Commands, name: str, run: Run, summary: str) -> None:
    _add(commands, name, run, summary).add_argument("job_id", metavar="JOB_ID")


def _add_for_queue(commands: Commands, name: str, run: Run, summary: str) -> None:
    _add(commands, name, run, summary).add_argument("queue", metavar="QUEUE")
