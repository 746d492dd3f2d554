"""Purge: what leaves the store, exactly as previewed, and what proves it.

A selection is frozen before anything is changed, and every later step only goes by what was frozen; so a purge that was
cut short anywhere is carried on by the next run, whoever makes it. Each step may be repeated.
"""
