"""TLC's state graph of JobQueue.tla against that of the in-memory store (README.md)."""
