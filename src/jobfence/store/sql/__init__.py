"""The SQL store: one table of transitions, executed as fenced updates."""
