"""The job state machine: its table, and all that follows from it without a database."""
