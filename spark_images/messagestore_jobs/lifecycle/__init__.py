"""Lifecycle: what became of messages that are in the store, told by status updates and by the clock."""
