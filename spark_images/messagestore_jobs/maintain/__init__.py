"""Keeping a store fast and no larger than it has to be; nothing that it says changes."""
