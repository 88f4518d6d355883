"""The deep run: each large model, then the slices from every content of the tables."""

import datetime as dt
import threading

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from runner.catalogue import SPEC, Catalogue, Model
from runner.check import AT_ONCE
from runner.record import EVERY_WORLD, SLICE, Kept, Record
from runner.report import Line, machine
from runner.toolchain import Toolchain

from equality.report import DEEP_SLICES, SLICES, Comparing, cells, processes


class Deep:
    """Runs what is asked for, and keeps every result as soon as it is there."""

    def __init__(self, tools: Toolchain, record: Record, timeout_s: float) -> None:
        self._tools, self._record, self._timeout_s = tools, record, timeout_s
        self._today = dt.datetime.now(tz=dt.UTC).date().isoformat()
        self._keeping = threading.Lock()
        self.wrong: list[str] = []

    def run(self, models: Sequence[Model], slices: Sequence[Model]) -> None:
        """
        Check the models, and compare the slices from every content.

        Those with several workers one by one, the others two at a time.
        """
        alone = [model for model in models if model.workers > 1]
        beside = [model for model in models if model.workers == 1]
        with processes() as pool, ThreadPoolExecutor(AT_ONCE) as threads:
            larger = Comparing(pool, DEEP_SLICES)
            every = Comparing(pool, every_world=True)
            for model in alone:
                self._check(larger, model, SLICE)
            works: list[Callable[[], None]] = [
                *(lambda it=model: self._check(larger, it, SLICE) for model in beside),
                *(
                    lambda it=model: self._check(every, it, EVERY_WORLD)
                    for model in slices
                ),
            ]
            for done in [threads.submit(work) for work in works]:
                done.result()

    def _check(self, comparing: Comparing, model: Model, kind: str) -> None:
        line = comparing(self._tools, model, timeout_s=self._timeout_s)
        found = comparing.compared(model.name)
        with self._keeping:
            if model.deep:
                self._record.keep_model(line, date=self._today)
            self._say(line)
            if found is None:
                return
            tlc_s, store_s = found.seconds
            figures = (*cells(found), f"{store_s:.0f}")
            self._record.keep(
                Kept(kind, model.name, figures, tlc_s, self._today, machine())
            )
            print(f"  {kind}: {', '.join(figures)}", flush=True)
            self.wrong += [f"{model.name}: {each}" for each in found.complaints]

    def _say(self, line: Line) -> None:
        print(f"{line.name}: {line.seen}, {line.outcome.seconds:.0f} s", flush=True)
        if not line.ok:
            self.wrong.append(
                f"{line.name}: expected {line.expected}, seen {line.seen}"
            )
            print(line.outcome.output[-2000:], flush=True)


def run_deep(
    tools: Toolchain, catalogue: Catalogue, names: Sequence[str], *, timeout_s: float
) -> int:
    """Run all, or what is named: models, or slices from every content; exit code."""
    models = [model for model in catalogue.models if model.deep]
    slices = [model for model in catalogue.models if model.name in SLICES]
    known = {model.name for model in (*models, *slices)}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no deep model or slice is called {', '.join(unknown)}")
        return 2
    if names:
        models = [model for model in models if model.name in names]
        slices = [model for model in slices if model.name in names]
    deep = Deep(tools, Record(SPEC / "results"), timeout_s)
    deep.run(models, slices)
    print("\n".join(deep.wrong) or "all as expected; written: spec/results/deep.md")
    return 1 if deep.wrong else 0
