"""An explicit job state machine and a durable, fenced job store."""

__version__ = "0.1.0"
