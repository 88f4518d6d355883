"""What a run of the induction shows."""

import time

from induction.plants import load_plants, planted
from induction.properties import INVARIANTS, OF_STEPS
from induction.prove import broken, never_taken
from induction.steps import steps_of
from induction.unbounded import BEYOND, bounded


def report_induction() -> int:
    """Print what is proved and what each planted fault breaks; return the exit code."""
    started = time.monotonic()
    steps = steps_of()
    wrong = [f"{each} can never be taken" for each in never_taken(steps)]
    bounds = list(bounded(steps))
    wrong += bounds
    wrong += [
        f"{found.step} breaks {found.property}: {found.example}"
        for found in broken(steps)
    ]
    plants = load_plants()
    for plant in plants:
        without = (plant.assumption,) if plant.assumption else ()
        faulty = planted(plant, steps)
        examples = list(broken(faulty, only=[plant.breaks], without=without))
        if not examples:
            wrong.append(f"{plant.breaks} is not broken by: {plant.why}")
        for found in examples:
            print(f"{plant.breaks}: {plant.why}\n    {found.step}: {found.example}")
    for each in wrong:
        print(each)
    if not bounds:
        print(
            f"every row can be taken with all numbers above {BEYOND:,}, and with the least"
        )
    print(
        f"{len(steps)} rows keep {len(INVARIANTS)} invariants and {len(OF_STEPS)} "
        f"properties of steps without bounds, {len(plants)} planted faults, "
        f"{len(wrong)} not as expected, {time.monotonic() - started:.1f} s"
    )
    return 1 if wrong else 0
