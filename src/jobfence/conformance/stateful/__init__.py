"""Layer (c): a Hypothesis state machine that drives a store beside the model."""
