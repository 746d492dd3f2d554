"""The operator: the three kinds, decisions about them, and their execution."""
