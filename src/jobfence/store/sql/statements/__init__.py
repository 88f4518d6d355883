"""All SQL of the store, as functions that return it; built once and kept."""
