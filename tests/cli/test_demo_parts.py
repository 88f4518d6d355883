"""The demo's parts: what it works on, its processes, and that its verdict can be bad."""

import contextlib
import hashlib
import os
import queue
import signal
import subprocess
import sys

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sqlalchemy import text

from jobfence import Handoff, JobStatus
from jobfence.cli.demo import files
from jobfence.cli.demo.child import GO_ON, HOLD, START, Orders
from jobfence.cli.demo.crew import Crew, Message, Process
from jobfence.cli.demo.files import Digest, File, digest, find
from jobfence.cli.demo.interruption import ended_by_signals, uninterrupted
from jobfence.cli.demo.place import Place
from jobfence.cli.demo.stage import Played
from jobfence.cli.demo.verdict import Verdict, judge
from jobfence.cli.failures import CommandFailed
from jobfence.statemachine.options import JobRequest


@pytest.fixture
def place(url: str) -> Iterator[Place]:
    place = Place(url, "jobfence_")
    place.make()
    yield place
    place.close()


def paths(root: Path) -> list[str]:
    return [file.path for file in find(root).files]


def test_files_are_found_by_name_and_caches_are_not(tmp_path: Path) -> None:
    for name in ("b", "a/2", "a/1", "é"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for folder in (".git", ".venv-3.13", "__pycache__", ".mypy_cache", "node_modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").touch()
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert paths(tmp_path) == ["b", "é", "a/1", "a/2"]


def test_only_regular_files_count(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder link").symlink_to("/etc")
    (tmp_path / "file").touch()
    found = find(tmp_path)
    assert [file.path for file in found.files] == ["file"]
    assert found.left_out == 0


def test_files_that_do_not_fit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 3)
    monkeypatch.setattr(files, "MOST_BYTES", 4)
    (tmp_path / "0 large").write_text("12345")
    Path(os.fsdecode(bytes(tmp_path) + b"/1 not utf-8 \xff")).touch()
    for name in ("2", "3", "4", "5"):
        (tmp_path / name).write_text("1234")
    found = find(tmp_path)
    assert [file.path for file in found.files] == ["2", "3", "4"]
    assert found.left_out == 3


def test_a_file_that_vanishes_while_files_are_found_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    monkeypatch.setattr(files, "_walk", lambda root: iter([root / "gone", root / "a"]))
    assert paths(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2)],
)
def test_a_digest_is_the_checksum_and_the_number_of_lines(
    tmp_path: Path, content: bytes, lines: int
) -> None:
    (tmp_path / "f").write_bytes(content)
    assert digest(tmp_path / "f") == Digest(hashlib.sha256(content).hexdigest(), lines)


def test_the_digest_of_a_file_that_is_gone_is_empty(tmp_path: Path) -> None:
    assert digest(tmp_path / "gone") == Digest(None, None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_text(name)
    return root


def run_all(place: Place, root: Path) -> tuple[Played, list[Handoff]]:
    """Do in this process what the workers do, without accidents."""
    found = find(root).files
    ids = place.store.enqueue_many(JobRequest("x", (file.path,)) for file in found)
    handoffs = place.store.claim(10)
    for handoff in handoffs:
        with place.store.engine.begin() as connection:
            path = root / str(handoff.job.args[0])
            place.add_result(connection, handoff, digest(path))
            place.store.within(connection).complete(handoff.job.id, handoff.handoff_id)
    played = Played(
        jobs=dict(zip(ids, found, strict=True)),
        recovered_after_kill=1,
        stale_refused=1,
        late_accepted=False,
    )
    return played, handoffs


def sql(place: Place, statement: str) -> None:
    with place.store.engine.begin() as connection:
        connection.execute(text(statement))


def test_a_clean_run_has_no_problems(place: Place, root: Path) -> None:
    verdict = judge(place, root, run_all(place, root)[0], 1.26)
    assert verdict.problems() == []
    assert verdict == Verdict(
        files=2,
        completed=2,
        runs=2,
        recovered_after_kill=1,
        stale_refused=1,
        late_accepted=False,
        wrong=0,
        lost=0,
        completed_twice=0,
        changed_meanwhile=0,
        seconds=1.3,
    )


def test_a_wrong_result_is_a_problem(place: Place, root: Path) -> None:
    played, _ = run_all(place, root)
    sql(place, "UPDATE jobfence_results SET line_count = line_count + 1")
    verdict = judge(place, root, played, 0)
    assert verdict.wrong == 2
    assert verdict.problems() == ["results are wrong"]


def test_a_result_of_no_job_is_a_problem(place: Place, root: Path) -> None:
    played, _ = run_all(place, root)
    sql(place, "UPDATE jobfence_results SET job_id = 'nobody' WHERE sha256 IN "
               "(SELECT min(sha256) FROM jobfence_results)")  # fmt: skip
    verdict = judge(place, root, played, 0)
    assert (verdict.wrong, verdict.lost) == (1, 1)


def test_a_file_that_changed_meanwhile_is_no_wrong_result(
    place: Place, root: Path
) -> None:
    played, _ = run_all(place, root)
    (root / "a").write_text("changed")
    (root / "b").unlink()
    verdict = judge(place, root, played, 0)
    assert (verdict.changed_meanwhile, verdict.wrong) == (2, 0)
    assert verdict.problems() == []
    assert ("files that changed meanwhile", "2") in verdict.rows()


def test_a_lost_job_is_a_problem(place: Place, root: Path) -> None:
    played, _ = run_all(place, root)
    sql(place, "DELETE FROM jobfence_jobs")
    verdict = judge(place, root, played, 0)
    assert (verdict.lost, verdict.completed) == (2, 0)
    assert verdict.problems() == ["jobs were lost"]


def test_a_completed_job_without_its_result_is_lost_too(
    place: Place, root: Path
) -> None:
    played, _ = run_all(place, root)
    sql(place, "DELETE FROM jobfence_results")
    verdict = judge(place, root, played, 0)
    assert (verdict.lost, verdict.completed) == (2, 2)


def test_a_second_result_is_a_problem(place: Place, root: Path) -> None:
    played, handoffs = run_all(place, root)
    with place.store.engine.begin() as connection:
        handoff = Handoff(handoffs[0].job, "another", 0, None)
        place.add_result(connection, handoff, digest(root / "a"))
    verdict = judge(place, root, played, 0)
    assert verdict.problems() == ["jobs were completed twice"]


def test_a_play_without_its_accidents_proves_nothing(place: Place, root: Path) -> None:
    played, _ = run_all(place, root)
    quiet = Played(
        jobs=played.jobs, recovered_after_kill=0, stale_refused=0, late_accepted=True
    )
    assert judge(place, root, quiet, 0).problems() == [
        "no job was recovered from the killed worker",
        "a late acknowledgement was accepted",
        "no stale acknowledgement was refused",
    ]


def orders(url: str, *, holds: bool = False) -> Orders:
    return Orders(
        url=url,
        table_prefix="jobfence_",
        root="/",
        worker_id="w",
        concurrency=1,
        holds=holds,
    )


def test_a_worker_that_cannot_work_is_told_with_its_last_words() -> None:
    with Crew() as crew:
        crew.add(orders("nonsense"))
        with pytest.raises(CommandFailed, match=r"worker w ended: .*database URL"):
            crew.wait_for("nothing", lambda: False, 30)


def test_a_wait_is_bounded(url: str) -> None:
    with Crew() as crew:
        crew.add(orders(url))
        with pytest.raises(CommandFailed, match=r"the moon did not come within 0\.2 s"):
            crew.wait_for("the moon", lambda: False, 0.2)


def test_no_process_is_left_over_not_even_a_stopped_one(url: str) -> None:
    with contextlib.suppress(ZeroDivisionError), Crew() as crew:
        process = crew.add(orders(url))
        process.send(signal.SIGSTOP)
        pid = process._popen.pid  # noqa: SLF001
        raise ZeroDivisionError
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_ends_by_itself_when_its_parent_is_gone(
    url: str, place: Place
) -> None:
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    for signs in ((), (START,)):
        process = Process(orders(url), inbox)
        for sign in signs:
            process.tell(sign)
        process.ask_to_end()  # what the kernel does when the parent dies
        assert process._popen.wait(30) == 0  # noqa: SLF001
        process.end(0)


def test_a_held_job_is_told_and_waits(url: str, place: Place, root: Path) -> None:
    (job_id,) = place.store.enqueue_many([JobRequest("checksum", (str(root / "a"),))])
    with Crew() as crew:
        process = crew.add(orders(url, holds=True))
        process.tell(START)
        crew.wait_for("it", lambda: bool(crew.told("holding")), 30)
        (held,) = crew.told("holding", process)
        job = place.store.get(job_id)
        assert job is not None
        assert (job.id, job.handoff_id) == (held["job_id"], held["handoff_id"])
        crew.kill(process)
    job = place.store.get(job_id)
    assert job is not None
    assert job.status is JobStatus.HANDED_OFF
    assert list(place.results()) == []


def test_a_changed_size_or_time_is_seen(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1")
    (file,) = find(tmp_path).files
    assert not files.has_changed(tmp_path, file)
    assert files.has_changed(tmp_path, File("f", 1, file.mtime_ns + 1))
    assert files.has_changed(tmp_path, File("f", 2, file.mtime_ns))


def test_a_job_that_is_to_be_held_is_held_until_the_sign(
    url: str, place: Place, root: Path
) -> None:
    requests = [JobRequest("checksum", (str(root / name),)) for name in ("a", "b")]
    other, held = place.store.enqueue_many(requests)
    with Crew() as crew:
        process = crew.add(orders(url))
        process.tell(HOLD, held)
        process.tell(START)
        crew.wait_for("it", lambda: bool(crew.told("holding")), 30)
        status = {job.id: job.status for job in place.store.list_jobs()}
        assert status == {other: JobStatus.COMPLETED, held: JobStatus.HANDED_OFF}
        process.tell(GO_ON)
        crew.wait_for(
            "the end", lambda: place.store.counts()[JobStatus.COMPLETED] == 2, 30
        )
        crew.stop()
        assert crew.told("late") == []


def test_signals_wait_for_the_end_of_a_block_that_must_not_be_interrupted() -> None:
    reached = []

    def play() -> None:
        with ended_by_signals():
            with uninterrupted():
                with uninterrupted():
                    signal.raise_signal(signal.SIGTERM)
                    signal.raise_signal(signal.SIGINT)
                    reached.append("the end of the inner block")
                reached.append("the end of the outer block")
            reached.append("what comes behind it")

    with pytest.raises(KeyboardInterrupt):
        play()
    assert reached == ["the end of the inner block", "the end of the outer block"]
    with uninterrupted():
        pass  # nothing is left waiting


@pytest.mark.parametrize("call", ["poll", "send_signal", "kill", "wait"])
def test_no_call_of_a_process_is_interrupted_in_its_middle(
    url: str, place: Place, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """An exception between `Popen`'s lock and its `try` would leave it locked."""
    real = getattr(subprocess.Popen, call)
    reached: list[str] = []

    def interrupted(*args: object) -> object:
        if not reached:
            signal.raise_signal(signal.SIGTERM)
        reached.append("the end of the call")
        return real(*args)

    process = Process(orders(url), queue.SimpleQueue())
    monkeypatch.setattr(subprocess.Popen, call, interrupted)

    def play() -> None:
        with ended_by_signals():
            process.send(signal.SIGSTOP)
            process.ended()
            process.end(0)

    with pytest.raises(SystemExit):
        play()
    assert reached
    process.end(0)
    assert process._popen.returncode is not None  # noqa: SLF001


def test_signal_handlers_are_put_back_and_left_alone_in_other_threads() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end, ended_by_signals():
        signal.raise_signal(signal.SIGTERM)
    assert end.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before

    def elsewhere() -> object:
        with ended_by_signals():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(elsewhere).result() is before


def test_a_signal_that_comes_while_an_object_is_finalized_ends_it_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: lost.append(each.exc_type))
    with pytest.raises(SystemExit) as end, ended_by_signals():
        Finalized()
    assert lost == [SystemExit]
    assert end.value.code == 128 + signal.SIGTERM
