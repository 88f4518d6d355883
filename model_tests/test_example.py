"""The adapters that the documentation shows are certified as they stand there."""

import importlib.util
import sys

from pathlib import Path
from types import ModuleType

from hypothesis import settings

from jobfence.conformance.examples.operating import Operating
from jobfence.conformance.layers import EXAMPLES, first_failure
from jobfence.conformance.stateful.machine import usual_settings
from jobfence.conformance.steps import Setting, walk_every_edge

SHOWN = Path(__file__).parent.parent / "docs" / "examples"
PAGE = SHOWN.parent / "write-an-adapter.md"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SHOWN / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


load("file_store")
load("document_store")
_AsShown = load("test_file_store").TestFileJobStore
_DocumentAsShown = load("test_document_store").TestDocumentJobStore


class TestFileJobStore(_AsShown):  # type: ignore[misc,valid-type]  # loaded, so Any
    stateful_settings = settings(
        usual_settings(), max_examples=50, stateful_step_count=30
    )


class TestDocumentJobStore(_DocumentAsShown):  # type: ignore[misc,valid-type]
    stateful_settings = settings(
        usual_settings(), max_examples=20, stateful_step_count=30
    )


def test_each_layer_by_itself_leaves_out_what_the_store_lacks() -> None:
    assert Operating in EXAMPLES  # pauses, prunes and requeues, which it cannot
    assert first_failure(_AsShown(), (Operating,)) is None
    suite = _AsShown()
    setting = Setting(suite.open_store, "steps", suite.capabilities)
    coverage = walk_every_edge(setting, most_jobs=1, most_steps=80)
    assert coverage.states > 5
    tried = {move.what for ways in coverage.ways.values() for move in ways}
    assert "replace_scheduled" not in tried
    assert "set_concurrency" in tried
    suite.drop_namespace("steps")


def test_the_page_shows_these_very_files() -> None:
    page = PAGE.read_text()
    for name in ("file_store", "document_store"):
        assert f"examples/{name}.py" in page
        assert f"examples/test_{name}.py" in page


def test_what_a_crash_left_behind_half_written_never_was(tmp_path: Path) -> None:
    store = sys.modules["file_store"].FileJobStore(tmp_path / "jobs")
    job_id = store.enqueue("mail")
    whole = (tmp_path / "jobs").read_bytes()
    other = store.enqueue("mail")
    line = (tmp_path / "jobs").read_bytes()[len(whole) :]
    (tmp_path / "jobs").write_bytes(whole + line[: len(line) // 2])
    again = sys.modules["file_store"].FileJobStore(tmp_path / "jobs")
    assert [job.id for job in again.list_jobs()] == [job_id]
    assert again.get(other) is None
    third = again.enqueue("mail")
    assert [job.id for job in again.list_jobs()] == [job_id, third]


def test_a_document_that_a_crash_left_half_written_never_was(tmp_path: Path) -> None:
    store = sys.modules["document_store"].DocumentJobStore(tmp_path / "jobs.json")
    job_id = store.enqueue("mail")
    whole = (tmp_path / "jobs.json").read_text()
    (tmp_path / "jobs.new").write_text(whole[: len(whole) // 2])
    again = sys.modules["document_store"].DocumentJobStore(tmp_path / "jobs.json")
    assert [job.id for job in again.list_jobs()] == [job_id]
    third = again.enqueue("mail")
    assert [job.id for job in store.list_jobs()] == [job_id, third]
