"""Deleting a store with everything that is its own."""
