"""Histories of a store: what happens to it, step by step, and a model in plain Python of what it must be then."""
