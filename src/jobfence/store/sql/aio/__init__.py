"""The async face of the SQL store: the same calls, awaited."""
