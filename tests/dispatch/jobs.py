"""Jobs that a process of its own can import, and what they leave behind for tests."""

import asyncio
import os
import subprocess
import sys
import threading
import time

from pathlib import Path

from jobfence.dispatch import JobApp, Reschedule, current_job
from jobfence.store.memory import MemoryJobStore

FOREVER_S = 600.0

app = JobApp(MemoryJobStore())


def write(path: str, text: str) -> None:
    """Write a file at once: a reader sees all of it or nothing."""
    part = Path(f"{path}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.rename(path)


@app.job("tell", execution_mode="process")
def tell(path: str, *, note: dict[str, int]) -> None:
    job = current_job().job
    write(path, f"{os.getpid()} {job.id} {job.name} {sorted(note.items())}")
    sys.stdout.write("a job may print")
    assert sys.stdin.read() == ""


@app.job("atell", execution_mode="process")
async def atell(path: str) -> None:
    await asyncio.sleep(0)
    write(path, str(os.getpid()))


@app.job("fail", execution_mode="process", max_retries=0)
def fail() -> None:
    raise ValueError("from the child")


@app.job("exit", execution_mode="process", max_retries=0)
def leave() -> None:
    sys.exit(3)


@app.job("crash", execution_mode="process", max_retries=0)
def crash() -> None:
    os._exit(7)


@app.job("later", execution_mode="process", max_retries=0)
def later() -> None:
    raise Reschedule(500)


@app.job("extend", execution_mode="process", max_retries=0)
def extend() -> None:
    current_job().extend()


@app.job("coroutine", execution_mode="process", max_retries=0)
def coroutine() -> object:
    return atell("unused")


@app.job("hang", execution_mode="process", max_retries=0)
def hang(path: str) -> None:
    """Start a child of its own, say who both are, and hang."""
    other = subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({FOREVER_S})"]
    )
    write(path, f"{os.getpid()} {other.pid}")
    time.sleep(FOREVER_S)


@app.job("linger", execution_mode="process")
def linger(path: str) -> None:
    """Return, and leave a thread that keeps the process alive."""
    threading.Thread(target=time.sleep, args=(FOREVER_S,)).start()
    write(path, str(os.getpid()))


@app.job("lose output", execution_mode="process", max_retries=0)
def lose_output(how: str) -> None:
    """Print, and see to it that what was printed can go nowhere."""
    sys.stdout.write("a job may print")
    if how == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    elif how == "broken":
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(reader)
        os.close(writer)
    elif how == "gone":
        os.close(1)
    elif how == "closed":
        sys.stdout.close()
    else:
        sys.stdout = None


@app.job("complain", execution_mode="process", max_retries=0)
def complain() -> None:
    for number in (1, 2):
        os.write(number, b"to nobody")
    subprocess.run(["/bin/sh", "-c", "echo to nobody >&2"], check=True)


class Unset(Reschedule):
    """Forgets to call the initialiser it inherits."""

    def __init__(self) -> None: ...


@app.job("later, unset", execution_mode="process", max_retries=0)
def later_unset() -> None:
    raise Unset


@app.job("generator", execution_mode="process", max_retries=0)
def generator() -> object:
    return (number for number in range(3))
