"""Histories of a store: steps that change it, and a model in plain Python of its expected state."""
