"""Layer (b): the rules as readable examples, one module per family."""
