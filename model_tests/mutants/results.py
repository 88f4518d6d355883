"""What a whole sweep found, kept as one file for each database and as a page."""

import json
import os
import platform
import re
import time

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobfence import __version__
from jobfence.conformance.sql.mutants import Mutant
from model_tests.mutants.gate import FOLDER, Accepted, entry_for, key_of
from model_tests.mutants.killers import Place
from model_tests.mutants.sweep import LAYERS, Found

PAGE = FOLDER.parents[1] / "docs" / "results" / "sql-mutants.md"
DATABASES = ("sqlite", "postgresql", "mariadb")
_COLUMNS = re.compile(r"\bSELECT (STRAIGHT_JOIN )?(jobs\.\w+(, jobs\.\w+){9,})")

_HEAD = """---
orphan: true
---

# SQL mutants

<!-- Written by `make deep` (model_tests/test_sql_mutants.py). -->

Every statement that the SQL store executes under the conformance suite is changed in one
place at a time while the store runs: a condition, an alternative, a value to set, an
order, a limit or a lock is left out, a comparison takes its border in or leaves it out,
or the statement changes nothing. Then the checks, the sequences and the races that
execute it run until one of them fails. A change that nothing finds has to be in
`model_tests/mutants/survivors.toml` with its reason; an entry there that is no survivor
any more fails the run too. Statements that make and inspect tables, and those that only
`jobfence audit` reads with, are not changed.

"""


def keep(
    place: Place,
    *,
    statements: int,
    found: Sequence[Found],
    pairs: Sequence[tuple[Accepted, Found]],
    entries: Sequence[Accepted],
    seconds: float,
) -> None:
    """Write the file of a database, and the page anew."""
    database = place.database
    survivors = [each for each in found if each.by is None]
    known = {
        "on": time.strftime("%Y-%m-%d", time.gmtime()),
        "database": f"{database} {place.version()}",
        "python": platform.python_version(),
        "jobfence": __version__,
        "cores": os.cpu_count(),
        "statements": statements,
        "mutants": len(found),
        "layers": {layer: _count(found, layer) for layer in LAYERS},
        "survived": len(survivors),
        "pairs": len(pairs),
        "seconds": round(seconds),
        "survivors": [
            _survivor(each.mutant, entries, database, pairs) for each in survivors
        ],
        "found": {key_of(each.mutant): each.by for each in found if each.by},
    }
    text = json.dumps(known, indent=0, ensure_ascii=False)
    (FOLDER / f"found-{database}.json").write_text(f"{text}\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())


def _count(found: Sequence[Found], layer: str) -> int:
    return sum(each.layer == layer for each in found)


def _survivor(
    mutant: Mutant,
    entries: Sequence[Accepted],
    database: str,
    pairs: Sequence[tuple[Accepted, Found]],
) -> dict[str, Any]:
    entry = entry_for(entries, mutant, database)
    by = [f"{p.layer}: {p.by}" for e, p in pairs if e is entry and p.mutant == mutant]
    return {
        "change": mutant.change,
        "statement": short(mutant.family),
        "reason": "" if entry is None else entry.reason,
        "pair": by[0] if by else "",
    }


def short(family: str) -> str:
    """Return a statement with its long list of columns left out."""
    return _COLUMNS.sub(r"SELECT \1…", family)


def page() -> str:
    """Return the page of all that is kept."""
    files = [FOLDER / f"found-{name}.json" for name in DATABASES]
    known = [json.loads(file.read_text()) for file in files if file.exists()]
    known = [each for each in known if "mutants" in each]  # of whole sweeps
    return _HEAD + "\n".join([*_table(known), "", *_survivors(known)]) + "\n"


def _table(known: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield (
        "| database | on | jobfence, Python | cores | statements | mutants | "
        + " | ".join(f"found by {layer}" for layer in LAYERS)
        + " | survived | seconds |"
    )
    yield "|---" * (8 + len(LAYERS)) + "|"
    for each in known:
        cells = [
            each["database"],
            each["on"],
            f"{each['jobfence']}, {each['python']}",
            each["cores"],
            each["statements"],
            each["mutants"],
            *each["layers"].values(),
            each["survived"],
            each["seconds"],
        ]
        yield f"| {' | '.join(map(str, cells))} |"


def _survivors(known: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "## Survivors"
    yield ""
    yield (
        "Where a second guard makes the first redundant, both left out together were "
        "found: by what is named under “pair”."
    )
    reasons = Counter(
        (each["reason"], one["database"].split()[0])
        for one in known
        for each in one["survivors"]
    )
    for reason in dict.fromkeys(reason for reason, _ in reasons):
        yield ""
        yield f"**{reason or 'Not judged yet: the gate fails for these.'}**"
        yield ""
        for one in known:
            name = one["database"].split()[0]
            for each in one["survivors"]:
                if each["reason"] == reason:
                    pair = f" — pair: {each['pair']}" if each["pair"] else ""
                    told = f"`{each['change']}` in `{each['statement']}`"
                    yield f"- {name}: {told}{pair}"
