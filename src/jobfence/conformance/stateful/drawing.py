"""What the stateful machine may draw: few values, so that they meet often."""

from hypothesis import strategies as st

from jobfence.statemachine.policy import QueuePolicy

START_MS = 1_000_000

INSTANCES = st.sampled_from([0, 1])
NAMES = st.sampled_from(["mail", "scan"])
QUEUES = st.sampled_from(["default", "bulk", "narrow"])
CONCURRENCY = st.sampled_from([None, ("k1", 1), ("k2", 2), ("k2", 2), ("k1", 3)])
KEYS = ("nightly", "hourly")
WORK_KEYS = st.sampled_from([None, None, ("k1", 1), ("k2", 2)])
SCHEDULE_KEYS = st.sampled_from(KEYS)
WORKERS = st.sampled_from(["w1", "w2"])
ARGS = st.sampled_from([(), (1,), ("a", {"b": [None, 2.5]})])
KWARGS = st.sampled_from([None, {"x": 1, "y": "é"}])
OFFSETS = st.sampled_from([-500, 0, 1, 1_000, 60_000])
LEASES = st.sampled_from([..., ..., None, 1, 5_000])
DELAYS = st.sampled_from([0, 1, 1_000, 60_000])
STEPS_MS = st.sampled_from([1, 999, 5_000, 10_000, 60_000, 3_600_000, -700])
SUBSETS = st.sampled_from([None] * 5 + [["default"], ["bulk", "narrow"], []])
MODES = st.sampled_from([None] * 5 + [["inline"], ["process"], []])
ERRORS = st.sampled_from(["boom", "nul \0 and \ud800", {"code": 7}, None, "é" * 40_000])
TTLS = st.sampled_from([None, 0, 1_000, 60_000])
VERBS = st.sampled_from(["complete", "fail", "reschedule", "return_to_queue"])
POLICIES = st.sampled_from(
    [
        QueuePolicy(),
        QueuePolicy(max_concurrent=1),
        QueuePolicy(max_concurrent=2, priority=3),
        QueuePolicy(priority=-1),
    ]
)
CONFIGURATIONS = st.one_of(
    st.none(), st.dictionaries(st.sampled_from(["bulk", "narrow"]), POLICIES)
)
BAD = st.sampled_from(
    [
        ("name", ""),
        ("name", "a\0b"),
        ("queue", "  "),
        ("priority", 2**31),
        ("max_retries", -1),
        ("max_retries", True),
        ("scheduled_at", -1),
        ("scheduled_at", 1.5),
        ("timeout_ms", 2**31),
        ("execution_mode", "elsewhere"),
        ("concurrency_key", "alone"),
        ("max_concurrency", 3),
        ("idempotency_key", ""),
        ("deduplicate_while_queued", 1),
    ]
)


def options(*, owned: bool) -> st.SearchStrategy[dict[str, object]]:
    """
    Draw the options of an enqueue, most of them left out.

    `owned` is for `replace_scheduled`, which takes neither dedupe nor idempotency.
    `offset` and `concurrency` are the machine's own words for a time and a pair.
    """
    optional: dict[str, st.SearchStrategy[object]] = {
        "queue": QUEUES,
        "priority": st.sampled_from([-1, 0, 5]),
        "max_retries": st.sampled_from([0, 0, 1, 10]),
        "offset": OFFSETS,
        "concurrency": CONCURRENCY,
        "timeout_ms": st.sampled_from([-5, 0, 5_000]),
        "execution_mode": st.sampled_from(["inline", "process"]),
    }
    if not owned:
        optional["deduplicate_while_queued"] = st.just(True)
        optional["idempotency_key"] = st.sampled_from(["i1", "i2"])
    return st.fixed_dictionaries({}, optional=optional)
