"""Delete a store with everything that is its own."""
