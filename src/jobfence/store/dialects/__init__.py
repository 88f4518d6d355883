"""What differs between databases: the only package that knows their names."""
