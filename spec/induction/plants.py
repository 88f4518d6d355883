"""The planted faults: rows of the table changed as `plants.toml` says."""

import tomllib

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from induction.steps import Step
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Slot, Value

PLANTS: Final = Path(__file__).with_name("plants.toml")


class PlantError(Exception):
    """A planted fault does not fit the table as it is: nothing would be planted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """One changed row, or one assumption not made, and the property it breaks."""

    why: str
    breaks: str
    row: str | None = None
    without: str | None = None
    writes: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    assumption: str | None = None


def load_plants(path: Path = PLANTS) -> tuple[Plant, ...]:
    """Read the planted faults."""
    return tuple(
        Plant(**entry) for entry in tomllib.loads(path.read_text()).get("plant", [])
    )


def planted(plant: Plant, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps with the fault in them."""
    if plant.row is None:
        return tuple(steps)
    at = next((at for at, each in enumerate(steps) if str(each) == plant.row), None)
    if at is None:
        raise PlantError(f"no row is called {plant.row!r}")
    if plant.without == "row":
        return (*steps[:at], *steps[at + 1 :])
    changed = _changed(plant, steps[at])
    if changed == steps[at]:
        raise PlantError(f"nothing to change in {plant.row}: {plant}")
    return (*steps[:at], changed, *steps[at + 1 :])


def _changed(plant: Plant, step: Step) -> Step:
    if plant.without == "slot":
        return replace(step, slot=Slot.NONE)
    if plant.without == "ownership":
        return replace(step, ends_ownership=False)
    writes = {
        **{name: value for name, value in step.writes.items() if name != plant.without},
        **{name: Value(value) for name, value in plant.writes.items()},
    }
    return replace(
        step,
        source=JobStatus(plant.source) if plant.source else step.source,
        guards=tuple(each for each in step.guards if each != plant.without),
        fence=tuple(each for each in step.fence if each != plant.without),
        writes=writes,
    )
