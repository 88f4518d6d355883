"""
The words of the transition journal: what its rows speak of, and what was done.

A job's action is a row of the table, `trigger:transition`, with `:whole` behind it when
a single owner recovered without asking for the lease (L2). A counter's or a schedule
key's is one or more of these words, joined by `+`, one for each write.
"""

from enum import StrEnum


class Entity(StrEnum):
    """What a row of the journal speaks of."""

    JOB = "job"
    COUNTER = "counter"
    SCHEDULE_KEY = "schedule_key"
    JOURNAL = "journal"  # itself: its one row says whether the tables were empty


class Action(StrEnum):
    """What was done to a counter, a schedule key or the journal; `delete` to any."""

    CREATE = "create"
    RESERVE = "reserve"
    RELEASE = "release"
    SET_CAP = "set_cap"
    COUNT = "count"  # a counter made for jobs that are handed off already
    REPAIR = "repair"
    OWN = "own"
    DISOWN = "disown"
    REBUILD = "rebuild"
    DELETE = "delete"
    BEGIN = "begin"


WHOLE = "whole"
JOINT = "+"
