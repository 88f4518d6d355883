"""What the tests let other processes do; each opens its own store."""
