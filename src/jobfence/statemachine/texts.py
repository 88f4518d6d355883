"""The error texts the library itself writes into a job, the same in every store."""


def interrupted(worker_id: str | None) -> str:
    """Say that a handoff ended without an acknowledgement (M8)."""
    return f"interrupted: worker {worker_id} did not finish this handoff"


def handoffs_spent(max_handoffs: int) -> str:
    """Say that the job was handed off too often without an end (M7b, L5)."""
    return f"given up after max_handoffs={max_handoffs} handoffs"


def unreadable(column: str, problem: str) -> str:
    """Say which stored column cannot be read (M11, M21)."""
    return f"unreadable: column {column} {problem}"
