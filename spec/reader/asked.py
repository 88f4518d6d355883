"""
What is asked of the changed package, in a process that imports that one.

    python -m reader.asked induction
    python -m reader.asked equality FILE ACTION    pickled graphs of the sound spec
    python -m reader.asked work URL         random work on a store with a journal

Prints the complaint, or nothing. `reader.report` runs these.
"""

import logging
import pickle
import random
import sys

from pathlib import Path

from equality.explore import explore
from equality.graph import Edge, Graph, State, action_of, compare
from equality.slices import read_slice
from induction.prove import broken, never_taken
from induction.steps import steps_of

ACTS = 2_500
PREFIX = "read_"
_SEED = 2026


def induction() -> str:
    """Say which property z3 finds broken first, and by which row."""
    steps = steps_of()
    for step in never_taken(steps):
        return f"{step} is never taken"
    for found in broken(steps):
        return f"`{found.property}` by {found.step}"
    return ""


def equality(path: Path, trigger: str) -> str:
    """
    Say in which slice the store's graph is another one first, and by which edges.

    Only slices in which something of this trigger happens can say anything.
    """
    graphs: dict[str, Graph] = pickle.loads(path.read_bytes())  # noqa: S301  ours
    prefix = trigger.replace("_", " ").title().replace(" ", "")
    for name, spec in graphs.items():
        if not any(action.startswith(prefix) for action in spec.actions):
            continue
        try:
            store = explore(read_slice(name)).graph
        except Exception as error:  # noqa: BLE001  whatever a broken store does
            return f"`{name}`: the store raises {type(error).__name__}"
        found = compare(spec, store)
        if found:
            both = spec.states & store.states
            missing, extra = (_labels(edges, both) for edges in found.edges)
            said = [f"the store lacks {missing}"] if missing else []
            said += [f"the store has a wrong {extra}"] if extra else []
            return f"`{name}`: {', '.join(said)}"
    return ""


def _labels(edges: frozenset[Edge], states: frozenset[State]) -> str:
    """Name the edges from states that both graphs have; the others follow from them."""
    names = sorted({action_of(label) for before, label, _ in edges if before in states})
    return f"{', '.join(f'`{name}`' for name in names[:3])}{' …' if names[3:] else ''}"


def work(url: str) -> str:
    """Do random things with a store that keeps a journal."""
    from tests.store.sql.journal.load import (  # noqa: PLC0415  needs a checkout
        Worker,
        soak_store,
    )

    store = soak_store(url, PREFIX)
    worker = Worker(store, random.Random(_SEED))  # noqa: S311  no secret
    try:
        for _ in range(ACTS):
            worker.work()
    except Exception as error:  # noqa: BLE001  whatever a broken store does
        return f"the store raises {type(error).__name__}"
    finally:
        store.close()
    return ""


def main() -> None:
    """Ask what the command line says."""
    logging.getLogger("jobfence").setLevel(logging.CRITICAL)
    what, *rest = sys.argv[1:]
    if what == "induction":
        said = induction()
    elif what == "equality":
        said = equality(Path(rest[0]), rest[1])
    else:
        said = work(rest[0])
    print(said)


if __name__ == "__main__":
    main()
