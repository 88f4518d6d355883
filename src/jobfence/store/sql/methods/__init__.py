"""The contract's methods, part by part; each hands a call or a plan to a runner."""
