"""The models and the planted faults are data, and data that cannot be run is refused."""

import re
import shutil

from pathlib import Path

import pytest

from runner import tlc
from runner.catalogue import SPEC, CatalogueError, Negative, load_catalogue
from runner.checks import checked_names
from runner.claims import never_broken
from runner.mutate import plant
from runner.rows import Row, action_names, read_rows, unreached

from jobfence.statemachine.table import TABLE

CATALOGUE = load_catalogue()


def edited(folder: Path, name: str, old: str, new: str) -> Path:
    """A copy of both lists with one edit in one of them."""
    for each in ("models.toml", "negatives.toml"):
        shutil.copy(SPEC / each, folder / each)
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    return folder


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        ("models.toml", 'name = "lifecycle"', 'name = "none"', "none has no "),
        ("models.toml", 'name = "rows-1job"', 'name = "lifecycle"', "the same name"),
        ("models.toml", "states = 93", 'states = "93"', "states is '93'"),
        ("models.toml", 'module = "MC"', "module = 1", "module is 1, must be text"),
        ("negatives.toml", 'base = "lifecycle"', 'base = "x"', "'x' is no model"),
        ("negatives.toml", "code = 13", "code = 0", "code 0 not in"),
        ("negatives.toml", "[[negative.edit]]", "[[negative.no]]", "has no [[negative"),
    ],
)
def test_an_entry_that_cannot_be_run_is_refused(
    tmp_path: Path, name: str, old: str, new: str, complaint: str
) -> None:
    with pytest.raises(CatalogueError, match=re.escape(complaint)):
        load_catalogue(edited(tmp_path, name, old, new))


def test_a_list_without_entries_is_refused(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text("")
    with pytest.raises(CatalogueError, match=r"no \[\[model\]\] in it"):
        load_catalogue(tmp_path)


@pytest.mark.parametrize("negative", CATALOGUE.negatives, ids=lambda each: each.name)
def test_each_fault_can_be_planted_and_is_checked_alone(
    tmp_path: Path, negative: Negative
) -> None:
    run = plant(negative, tmp_path)
    planted, sound = tmp_path / negative.file, SPEC / negative.file
    assert planted.read_text() != sound.read_text()
    assert run.check_deadlock == (negative.code == tlc.DEADLOCK)
    checks = re.findall(
        r"^(?:INVARIANT|PROPERT)\S*.*", run.config.read_text(), re.MULTILINE
    )
    wanted = {
        tlc.INVARIANT: [f"INVARIANT {negative.breaks}"],
        tlc.PROPERTY: [f"PROPERTY {negative.breaks}"],
    }
    assert checks == wanted.get(negative.code, [])


def test_an_edit_that_no_longer_fits_is_refused(tmp_path: Path) -> None:
    copy = edited(tmp_path, "negatives.toml", "job[j].handoff = n", "no such text")
    stale = load_catalogue(copy).negatives[0]
    (tmp_path / "planted").mkdir()
    with pytest.raises(CatalogueError, match="found 0 times in JobQueue"):
        plant(stale, tmp_path / "planted")


def test_every_checked_property_is_broken_by_a_planted_fault() -> None:
    assert never_broken(CATALOGUE.models, CATALOGUE.negatives) == ()


def test_a_property_that_nothing_breaks_is_named() -> None:
    less = [each for each in CATALOGUE.negatives if each.breaks != "KeyKept"]
    assert never_broken(CATALOGUE.models, less) == ("no planted fault breaks: KeyKept",)


def test_every_property_of_the_modules_is_checked_somewhere() -> None:
    """An invariant that no configuration names would be checked by nobody."""
    text = (SPEC / "JobQueueProps.tla").read_text()
    of_steps = set(re.findall(r"^(\w+) ==\n  \[\]\[", text, re.MULTILINE))
    assert len(of_steps) > 10
    assert of_steps <= checked_names(CATALOGUE.models)


def test_every_model_names_all_properties_of_the_queue() -> None:
    sections = {
        model.config.read_text().partition("INVARIANTS")[2].replace("RowsAreSteps", "")
        for model in CATALOGUE.models
        if model.module == "MC" and not model.name.startswith(("live", "deep-live"))
    }
    assert len({" ".join(section.split()) for section in sections}) == 1


def test_the_rows_are_those_of_the_table() -> None:
    assert list(read_rows()) == [
        Row(row.trigger, row.name, row.source or "absent") for row in TABLE
    ]


def test_an_action_is_named_after_its_row() -> None:
    rows = (
        Row("fail", "retry", "handed_off"),
        Row("complete", "complete", "handed_off"),
        Row("reject", "reject", "queued"),
        Row("reject", "reject", "handed_off"),
    )
    assert action_names(rows) == (
        "FailRetry",
        "Complete",
        "RejectQueued",
        "RejectHandedOff",
    )


def test_a_row_or_an_action_that_no_model_took_is_named() -> None:
    rows = (Row("claim", "claim", "queued"), Row("wake", "wake", "queued"))
    taken = {("JobQueue", "Claim"): 3, ("Sql", "Die"): 0}
    assert unreached(taken, rows) == ("Sql!Die", "row Wake")
