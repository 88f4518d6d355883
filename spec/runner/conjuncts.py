"""
Takes each part out of each property: does a planted fault notice?

A fault that still breaks the property without the part says nothing of it. A part that
no fault notices could be lost, and nobody would know. What is taken out: each conjunct
of what is promised (`runner.parts`), and the weaker properties of `conjuncts.toml`.
"""

import re
import tempfile
import tomllib

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from runner import tlc
from runner.catalogue import SPEC, Catalogue, CatalogueError, Negative
from runner.check import AT_ONCE
from runner.checks import checked_names
from runner.jvm import Jvm
from runner.mutate import plant
from runner.parts import conjuncts, is_defined, without
from runner.toolchain import Toolchain

# What a property says by words that are defined apart from it.
WORDS: Final[Mapping[str, Sequence[str]]] = {"StepsAreRows": ("Guarded", "Follows")}
_EXTENDS: Final = re.compile(r"^EXTENDS (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """
    What a property is to lose: a conjunct of a definition, or a piece of text.

    `place`: which conjunct of `name`; None: `old` becomes `new`.
    """

    property: str
    file: str
    says: str
    name: str = ""
    place: int | None = None
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        """Say which it is, as `conjuncts.toml` does."""
        return f"{self.property}: {self.says}"

    def take_out(self, module: Path) -> None:
        """Write the module anew without it."""
        text = module.read_text()
        if self.place is not None:
            module.write_text(without(text, self.name, self.place))
            return
        if text.count(self.old) != 1:
            raise CatalogueError(f"{self}: not once in {self.file}:\n{self.old}")
        module.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True, slots=True)
class Kept:
    """Parts of a property that no fault notices, and why they stay."""

    property: str
    parts: tuple[str, ...]
    why: str


def parts_of(catalogue: Catalogue) -> Iterator[Part]:
    """Yield each conjunct of each checked property."""
    for path in sorted(SPEC.glob("*.tla")):
        text = path.read_text()
        for name in sorted(checked_names(catalogue.models)):
            for each in (name, *WORDS.get(name, ())):
                if not is_defined(text, each):
                    continue
                for place, found in enumerate(conjuncts(text, each)):
                    yield Part(name, path.name, found.text, each, place)


def load_kept(folder: Path = SPEC) -> tuple[tuple[Part, ...], tuple[Kept, ...]]:
    """Read `conjuncts.toml`: weaker properties, and the parts that stay unnoticed."""
    with (folder / "conjuncts.toml").open("rb") as file:
        data = tomllib.load(file)
    weaker = [
        Part(
            property=entry["property"],
            file=entry["file"],
            says=entry["says"].replace("{each}", each),
            old=entry["old"],
            new=entry["new"].replace("{each}", each),
        )
        for entry in data["weaker"]
        for each in entry.get("each", [""])
    ]
    kept = (
        Kept(entry["property"], tuple(entry["parts"]), entry["why"])
        for entry in data.get("kept", [])
    )
    return tuple(weaker), tuple(kept)


def that_name(part: Part, negatives: Iterable[Negative]) -> list[Negative]:
    """Return the faults that break this property in a model that has this module."""
    return [
        each
        for each in negatives
        if each.breaks == part.property and part.file in _modules(each.base.module)
    ]


@cache
def _modules(root: str) -> frozenset[str]:
    """Return the files of the module and of what it extends."""
    path = SPEC / f"{root}.tla"
    if not path.is_file():
        return frozenset()  # one of TLC's own
    found = _EXTENDS.search(path.read_text())
    names = found[1].replace(",", " ").split() if found else []
    return frozenset({path.name}).union(*map(_modules, names))


class Finder:
    """Asks TLC whether a fault is still found, small runs in a JVM for each module."""

    def __init__(self, tools: Toolchain, jvms: ExitStack) -> None:
        self._tools, self._jvms = tools, jvms
        self._of: dict[str, Jvm] = {}

    def notices(self, negative: Negative, part: Part) -> bool:
        """Whether this fault is no longer found without the part."""
        with tempfile.TemporaryDirectory(prefix="conjunct-") as folder:
            run = plant(negative, Path(folder))
            part.take_out(Path(folder, part.file))
            outcome = self._asked(negative, run)
            if outcome is None or outcome.code != negative.code:
                outcome = tlc.run_tlc(self._tools, run)
        if outcome.code not in (tlc.OK, negative.code):
            shown = outcome.output[-2000:]
            raise CatalogueError(f"{part}, {negative.name}: {outcome.code}\n{shown}")
        return outcome.code == tlc.OK

    def _asked(self, negative: Negative, run: tlc.Run) -> tlc.Outcome | None:
        if negative.base.liveness or not self._tools.pinned:
            return None
        module = negative.base.module
        if module not in self._of:
            self._of[module] = self._jvms.enter_context(Jvm(self._tools))
        return self._of[module].run(run)


def noticed_by(
    tools: Toolchain, parts: Sequence[Part], negatives: Sequence[Negative]
) -> Iterator[tuple[Part, str | None]]:
    """Yield each part with the first fault that notices that it is gone, or None."""
    shares = [parts[first::AT_ONCE] for first in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for share in pool.map(lambda each: _share(tools, each, negatives), shares):
            yield from share


def _share(
    tools: Toolchain, parts: Sequence[Part], negatives: Sequence[Negative]
) -> list[tuple[Part, str | None]]:
    with ExitStack() as jvms:
        finder = Finder(tools, jvms)
        return [(part, _first(finder, part, negatives)) for part in parts]


def _first(finder: Finder, part: Part, negatives: Sequence[Negative]) -> str | None:
    # The later ones of a property were planted for its parts.
    for negative in reversed(that_name(part, negatives)):
        if finder.notices(negative, part):
            return negative.name
    return None


def complaints(
    found: Iterable[tuple[Part, str | None]], kept: Iterable[Kept]
) -> list[str]:
    """Say what nobody notices though it is not kept, and what is kept in vain."""
    stay = {f"{each.property}: {part}" for each in kept for part in each.parts}
    unnoticed = {str(part) for part, name in found if name is None}
    return [
        *(
            f"no planted fault notices without {part}"
            for part in sorted(unnoticed - stay)
        ),
        *(f"kept, but not unnoticed: {part}" for part in sorted(stay - unnoticed)),
    ]


def check_conjuncts(tools: Toolchain, catalogue: Catalogue) -> int:
    """Print who notices each part, and return the exit code."""
    weaker, kept = load_kept()
    parts = [*parts_of(catalogue), *weaker]
    found = list(noticed_by(tools, parts, catalogue.negatives))
    for part, name in sorted(found, key=lambda each: str(each[0])):
        print(f"{name or '-':30}  {part}")
    wrong = complaints(found, kept)
    print(f"\n{len(found)} parts, {sum(not name for _, name in found)} unnoticed")
    for each in kept:
        print(f"{len(each.parts)} of {each.property} stay: {each.why}")
    for complaint in wrong:
        print(complaint)
    return 1 if wrong else 0
