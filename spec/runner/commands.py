"""The commands of `spec/run.py`: what each runs, prints and answers."""

import argparse
import os
import sys
import time

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runner import kept, report
from runner.catalogue import SPEC, Catalogue, CatalogueError, load_catalogue
from runner.check import (
    check_all,
    check_model,
    check_negative,
    idle_actions,
)
from runner.claims import COVERED, unkept_claims
from runner.conjuncts import check_conjuncts
from runner.examples import examples
from runner.generated import stale
from runner.toolchain import Toolchain, ToolMissingError, find_toolchain
from runner.trace import condense

if TYPE_CHECKING:
    from equality.report import Comparing

QUICK_TIMEOUT_S = 300.0
DEEP_TIMEOUT_S = 7200.0


def main() -> int:
    """Run what the command line asks for and return the exit code."""
    options = _options()
    complaint = stale()
    if complaint:
        print(complaint, file=sys.stderr)
        return 1
    if options.induction:
        return _induction()
    try:
        catalogue = load_catalogue()
    except CatalogueError as error:
        print(error, file=sys.stderr)
        return 1
    return _keep_checks(catalogue) if options.checks else _judge(catalogue, options)


def _judge(catalogue: Catalogue, options: argparse.Namespace) -> int:
    if not (options.only or options.trace) and _refused(catalogue):
        return 1
    try:
        tools = find_toolchain()
    except ToolMissingError as error:
        print(f"the formal model was not checked: {error}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    return _run(tools, catalogue, options)


def _keep_checks(catalogue: Catalogue) -> int:
    kept.KEPT.write_text(kept.page(catalogue))
    print(f"written: {kept.KEPT.relative_to(SPEC.parent)}")
    return 0


def _refused(catalogue: Catalogue) -> bool:
    """Say what is claimed and not checked; whether there is anything."""
    unkept = unkept_claims(catalogue)
    if unkept:
        print("nothing was run, for what is claimed is not checked:", file=sys.stderr)
    for each in unkept:
        print(f"  {each}", file=sys.stderr)
    return bool(unkept)


def _run(tools: Toolchain, catalogue: Catalogue, options: argparse.Namespace) -> int:
    if options.only or options.trace:
        name = options.only or options.trace
        return _one(tools, catalogue, name, condensed=bool(options.trace))
    if options.equality:
        return _equality(tools, catalogue)
    if options.counterexamples or options.conjuncts:
        asked = check_conjuncts if options.conjuncts else _examples
        return asked(tools, catalogue)
    if options.guards or options.fences:
        return _guards(tools, catalogue, fences=options.fences)
    if options.deep is not None:
        return _deep(tools, catalogue, options.deep)
    return _all(tools, catalogue, alone=options.alone)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Check the formal model of jobfence (see spec/README.md)."
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--deep", nargs="*", metavar="NAME", help="the large bounds, all or these"
    )
    what.add_argument(
        "--alone", action="store_true", help="share no JVM, which takes minutes"
    )
    what.add_argument("--only", metavar="NAME", help="one model or negative")
    what.add_argument("--trace", metavar="NAME", help="a negative's counterexample")
    what.add_argument(
        "--counterexamples", action="store_true", help="write counterexamples.md"
    )
    what.add_argument("--guards", action="store_true", help="who notices a lost guard")
    what.add_argument("--fences", action="store_true", help="who notices a lost fence")
    what.add_argument(
        "--conjuncts", action="store_true", help="who notices a lost part of a property"
    )
    what.add_argument("--equality", action="store_true", help="the store's graph")
    what.add_argument("--induction", action="store_true", help="z3, without bounds")
    what.add_argument("--checks", action="store_true", help="write checks.toml")
    return parser.parse_args()


def _all(tools: Toolchain, catalogue: Catalogue, *, alone: bool) -> int:
    from equality.report import Comparing, processes  # noqa: PLC0415  as for _equality

    models = [model for model in catalogue.models if not model.deep]
    negatives = catalogue.negatives
    started = time.monotonic()
    with processes() as pool:
        comparing = Comparing(pool)
        lines = check_all(
            tools,
            models,
            negatives,
            timeout_s=QUICK_TIMEOUT_S,
            check=comparing,
            alone=alone,
        )
    wrong = _print_lines(lines)
    blind = idle_actions(lines, comparing.taken(), COVERED)
    for complaint in blind:
        print(complaint)
    equal = _print_equality(comparing)
    seconds = time.monotonic() - started
    print(
        f"\n{len(models)} models, {len(negatives)} planted faults, {wrong} not as "
        f"expected, {len(blind)} blind spots, {seconds:.0f} s"
    )
    return 1 if wrong or blind or not equal else 0


def _deep(tools: Toolchain, catalogue: Catalogue, names: Sequence[str]) -> int:
    from equality.deep import run_deep  # noqa: PLC0415  needs jobfence

    return run_deep(tools, catalogue, names, timeout_s=DEEP_TIMEOUT_S)


def _print_lines(lines: Sequence[report.Line]) -> int:
    print(report.table(lines))
    wrong = [line for line in lines if not line.ok]
    for line in wrong:
        print(f"\n{line.name}: expected {line.expected}, seen {line.seen}")
        print(condense(line.outcome.output) or line.outcome.output[-2000:])
    return len(wrong)


def _print_equality(comparing: "Comparing") -> bool:
    text, equal = comparing.report()
    print(f"\n{text}")
    return equal


def _examples(tools: Toolchain, catalogue: Catalogue) -> int:
    lines = check_all(
        tools, (), catalogue.negatives, timeout_s=QUICK_TIMEOUT_S, alone=True
    )
    wrong = [line.name for line in lines if not line.ok]
    if wrong:
        print(f"not as expected, nothing written: {', '.join(wrong)}", file=sys.stderr)
        return 1
    page = SPEC / "counterexamples.md"
    page.write_text(examples(zip(catalogue.negatives, lines, strict=True)))
    print(f"written: {page.relative_to(SPEC.parent)}")
    return 0


def _guards(tools: Toolchain, catalogue: Catalogue, *, fences: bool) -> int:
    from reader.page import head, line, unnoticed, write  # noqa: PLC0415
    from reader.report import reader_table  # noqa: PLC0415  needs jobfence

    print(head())
    found = []
    for said in reader_table(tools, catalogue, fences=fences):
        found.append(said)
        print(line(said), flush=True)
    write(SPEC / "README.md", found, fences=fences)
    return 1 if any(unnoticed(said, fences=fences) for said in found) else 0


def _equality(tools: Toolchain, catalogue: Catalogue) -> int:
    from equality.report import (  # noqa: PLC0415  only this needs jobfence
        SLICES,
        Comparing,
        processes,
    )

    slices = [model for model in catalogue.models if model.name in SLICES]
    with processes() as pool:
        comparing = Comparing(pool)
        check_all(tools, slices, (), timeout_s=DEEP_TIMEOUT_S, check=comparing)
    return 0 if _print_equality(comparing) else 1


def _induction() -> int:
    from induction.report import report_induction  # noqa: PLC0415  only this needs z3

    return report_induction()


def _one(tools: Toolchain, catalogue: Catalogue, name: str, *, condensed: bool) -> int:
    for model in catalogue.models:
        if model.name == name:
            line = check_model(tools, model, timeout_s=DEEP_TIMEOUT_S)
            break
    else:
        negatives = {negative.name: negative for negative in catalogue.negatives}
        if name not in negatives:
            print(f"no model or negative is called {name!r}", file=sys.stderr)
            return 2
        line = check_negative(tools, negatives[name])
    output = line.outcome.output
    print(condense(output) if condensed else output)
    print(f"{line.name}: expected {line.expected}, seen {line.seen}")
    return 0 if line.ok else 1
