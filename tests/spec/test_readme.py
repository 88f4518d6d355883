"""What `spec/README.md` says of models, faults and properties is what is there."""

import re

from equality.report import DEEP_SLICES, SLICES
from equality.slices import read_slice
from induction.plants import load_plants
from induction.properties import INVARIANTS, OF_STEPS
from runner import tlc
from runner.catalogue import SPEC, load_catalogue
from runner.checks import checked_names
from runner.record import Record

CATALOGUE = load_catalogue()
README = (SPEC / "README.md").read_text()


def test_every_configuration_is_one_of_a_model() -> None:
    found = {path.stem for path in (SPEC / "models").glob("*.cfg")}
    assert found == {model.name for model in CATALOGUE.models}


def test_every_module_is_run_or_extended() -> None:
    text = "".join(path.read_text() for path in SPEC.glob("*.tla"))
    for path in SPEC.glob("*.tla"):
        run = any(model.module == path.stem for model in CATALOGUE.models)
        extended = re.search(rf"(EXTENDS|INSTANCE)\b[^\n]*\b{path.stem}\b", text)
        assert run or extended, path
        assert f"`{path.name}`" in README


def test_every_checked_property_has_a_sentence() -> None:
    names = checked_names(CATALOGUE.models) | {*INVARIANTS, *OF_STEPS}
    assert [name for name in sorted(names) if f"`{name}`" not in README] == []


def test_every_fault_at_the_statement_level_is_in_the_table_as_it_is() -> None:
    rows = dict(re.findall(r"^\| `(sql-[\w-]+)`: (.*) \|$", README, re.MULTILINE))
    assert rows == {
        each.name: f"{each.why} | {each.code} "
        + (f"`{each.breaks}`" if each.breaks else tlc.MEANING[each.code])
        for each in CATALOGUE.negatives
        if each.name.startswith("sql-")
    }


def test_its_counts_are_those_of_the_files() -> None:
    states = {model.name: model.states for model in CATALOGUE.models}
    assert f"{len(CATALOGUE.negatives)} planted faults" in README
    assert f"holds {len(load_plants())} faults" in README
    assert f"{sum(states[name] for name in SLICES):,} states" in README
    edges = {model.name: model.edges or 0 for model in CATALOGUE.models}
    assert f"{sum(edges[name] for name in SLICES):,} labelled edges" in README
    table = (SPEC / "equality" / "README.md").read_text()
    for name in SLICES:
        assert f"{states[name]:,} = {states[name]:,} | {edges[name]:,} = " in table
    assert f"{sum(states[name] for name in DEEP_SLICES):,} states" in README


def test_the_counterexamples_it_shows_are_those_of_the_page() -> None:
    page = (SPEC / "counterexamples.md").read_text()
    shown = re.findall(r"```\n(  1 Init\n.*?)```", README, re.DOTALL)
    assert len(shown) >= 3
    for each in shown:
        assert f"```\n{each}```" in page


def test_the_largest_slice_says_which_parts_of_the_queue_it_leaves_out() -> None:
    parts = re.findall(r'On\("(\w+)"\)', (SPEC / "JobQueue.tla").read_text())
    model = next(each for each in CATALOGUE.models if each.name == "deep-all-2jobs")
    slice_ = read_slice(model.name)
    left_out = {part for part in parts if not slice_.on(part)}
    # `late_twins` is a part of statements only.
    assert left_out - {"late_twins"} == {"answers", "policy", "single_owner"}
    assert not slice_.identity_of
    assert not slice_.idempotency_key_of
    assert "but answers told again, policies, dedupe and a single owner" in model.shows


def test_the_kept_results_say_of_each_model_what_it_shows() -> None:
    page = Record(SPEC / "results").page()
    assert page == (SPEC / "results" / "deep.md").read_text()
    for model in CATALOGUE.models:
        if model.deep:
            assert f"| ok, {model.states:,} | {model.shows} |" in page
