"""Lifecycle: change the status of stored messages, by status updates and by the clock."""
