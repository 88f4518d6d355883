"""What came of the demo, worked out from the database and the files alone."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from jobfence.cli.demo.files import digest, has_changed
from jobfence.cli.demo.place import Place
from jobfence.cli.demo.stage import Played
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job

PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The figures of the last table."""

    files: int
    completed: int
    runs: int
    recovered_after_kill: int
    stale_refused: int
    late_accepted: bool
    wrong: int
    lost: int
    completed_twice: int
    changed_meanwhile: int
    seconds: float

    def rows(self) -> list[tuple[str, str]]:
        """Return the figures with their names."""
        rows = [
            ("files", str(self.files)),
            ("completed", str(self.completed)),
            ("runs", str(self.runs)),
            ("recovered after a kill", str(self.recovered_after_kill)),
            ("stale acknowledgements refused", str(self.stale_refused)),
            ("results wrong (recomputed)", str(self.wrong)),
            ("lost", str(self.lost)),
            ("completed twice", str(self.completed_twice)),
            ("seconds", f"{self.seconds:.1f}"),
        ]
        if self.changed_meanwhile:
            changed = ("files that changed meanwhile", str(self.changed_meanwhile))
            rows.insert(-1, changed)
        return rows

    def problems(self) -> list[str]:
        """Say what should not be; nothing is the proof that was asked for."""
        wanted = {
            "results are wrong": self.wrong == 0,
            "jobs were lost": self.lost == 0,
            "jobs were completed twice": self.completed_twice == 0,
            "no job was recovered from the killed worker": self.recovered_after_kill
            > 0,
            "a late acknowledgement was accepted": not self.late_accepted,
            "no stale acknowledgement was refused": self.stale_refused > 0,
        }
        return [problem for problem, good in wanted.items() if not good]


def judge(place: Place, root: Path, played: Played, seconds: float) -> Verdict:
    """Compare what is stored with what was asked for and with the files."""
    jobs = {job.id: job for job in _all_jobs(place)}
    results = list(place.results())
    completed = {
        job_id for job_id, job in jobs.items() if job.status is JobStatus.COMPLETED
    }
    per_job = Counter(job_id for job_id, _ in results)
    wrong = changed = 0
    for job_id, found in results:
        file = played.jobs.get(job_id)
        if file is not None and digest(root / file.path) == found:
            continue
        if file is not None and has_changed(root, file):
            changed += 1
        else:
            wrong += 1
    return Verdict(
        files=len(played.jobs),
        completed=len(completed),
        runs=sum(job.handoffs for job in jobs.values()),
        recovered_after_kill=played.recovered_after_kill,
        stale_refused=played.stale_refused,
        late_accepted=played.late_accepted,
        wrong=wrong,
        lost=len(played.jobs.keys() - (completed & per_job.keys())),
        completed_twice=sum(count > 1 for count in per_job.values()),
        changed_meanwhile=changed,
        seconds=round(seconds, 1),
    )


def _all_jobs(place: Place) -> list[Job]:
    jobs: list[Job] = []
    while page := place.store.list_jobs(limit=PAGE, after=jobs[-1] if jobs else None):
        jobs += page
    return jobs
