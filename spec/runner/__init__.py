"""Runs the formal model: finds TLC, runs every model, compares with what is expected."""
