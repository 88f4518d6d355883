"""`jobfence audit`: was everything possible that a database's journal and tables say?"""

import argparse

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobfence.cli import output
from jobfence.cli.arguments import (
    Commands,
    add_command,
    add_json,
    add_tables,
    add_url,
)
from jobfence.cli.failures import FOUND_WRONG, OK, CommandFailed, UsageError
from jobfence.cli.stores import open_store
from jobfence.conformance.trace import (
    BadEntry,
    Entry,
    Impossible,
    Verdict,
    check,
    check_tables,
)
from jobfence.conformance.trace.tla import NotForTLC, trace_module

if TYPE_CHECKING:
    from jobfence.store.sql.auditing import Snapshot

SHOWN = 20


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands, "audit", run, "check the journal and the tables of a database"
    )
    add_url(parser)
    add_tables(parser)
    add_json(parser)
    parser.add_argument(
        "--tla",
        type=Path,
        metavar="FILE",
        help="write the journal as a TLA+ module too, for spec/trace/run.py",
    )
    parser.add_argument(
        "--max-handoffs",
        type=int,
        metavar="N",
        help="what the stores were made with: handoffs given up are then judged too",
    )


def run(args: argparse.Namespace) -> int:
    """Check both, or the tables alone where there is no journal."""
    path: Path | None = args.tla
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"--tla: there is no directory {path.parent}")
    if args.max_handoffs is not None and args.max_handoffs < 1:
        raise UsageError(f"--max-handoffs must be 1 or more, not {args.max_handoffs}")
    with open_store(args, writes=False) as store:
        from jobfence.store.sql import auditing  # noqa: PLC0415  SQLAlchemy

        judge = _audit_journal if auditing.has_journal(store) else _audit_tables
        with auditing.snapshot(store) as seen:
            return judge(args, seen)


def _audit_journal(args: argparse.Namespace, seen: "Snapshot") -> int:
    try:
        entries = [Entry.from_row(row) for row in seen.entries()]
    except BadEntry as bad:
        raise CommandFailed(f"a row of the journal is no entry: {bad}") from bad
    if args.tla is not None:
        _write_module(args.tla, entries, args.max_handoffs)
    verdict = check(entries, seen, max_handoffs=args.max_handoffs)
    if args.json:
        output.print_json(
            {
                "ok": verdict.ok,
                "journal": True,
                "counts": verdict.counts,
                "earlier": verdict.earlier,
                "impossible": verdict.impossible,
            }
        )
    elif verdict.impossible is None:
        _print_possible(verdict)
    else:
        _print_impossible(verdict.impossible, verdict.counts["entries"])
    return OK if verdict.ok else FOUND_WRONG


def _write_module(
    path: Path, entries: Sequence[Entry], max_handoffs: int | None
) -> None:
    try:
        module = trace_module(entries, max_handoffs=max_handoffs)
        path.write_text(module, encoding="utf-8")
    except NotForTLC as problem:
        raise CommandFailed(f"--tla: {problem}") from problem


def _print_possible(verdict: Verdict) -> None:
    counts = verdict.counts
    print(
        f"OK: {counts['entries']:,} entries of the journal, written by "
        f"{counts['transactions']:,} transactions, and the tables are what they lead to"
    )
    print(
        f"{counts['transitions']:,} transitions of {counts['jobs']:,} jobs; "
        f"{counts['counters']:,} counters, {counts['schedule_keys']:,} schedule keys"
    )
    if verdict.earlier:
        print(
            f"{verdict.earlier:,} rows were there before the journal began: what they "
            f"were then is not known"
        )


def _print_impossible(found: Impossible, entries: int) -> None:
    if found.action is None:
        print(
            f"impossible: {found.entity} {output.shown(found.entity_id)} as it stands"
        )
    else:
        print(
            f"impossible: event {found.index:,} of {entries:,}, in transaction "
            f"{output.shown(found.tx)}: {found.entity} "
            f"{output.shown(found.entity_id)}, revision {found.rev}, "
            f"{output.shown(found.action)}"
        )
    print(f"rule:       {found.rule}")
    print(f"expected:   {output.shown(found.expected)}")
    print(f"seen:       {output.shown(found.seen)}")


def _audit_tables(args: argparse.Namespace, seen: "Snapshot") -> int:
    if args.tla is not None:
        raise CommandFailed("--tla: this database has no journal")
    found = check_tables(seen)
    if args.json:
        output.print_json({"ok": not found, "journal": False, "problems": found})
        return FOUND_WRONG if found else OK
    print(
        "this database has no journal (a store writes one with journal=True); only "
        "the tables as they stand were checked"
    )
    for each in found[:SHOWN]:
        print(output.shown(str(each)))
    if len(found) > SHOWN:
        print(f"and {len(found) - SHOWN:,} more")
    print(f"{len(found):,} problems" if found else "OK")
    return FOUND_WRONG if found else OK
