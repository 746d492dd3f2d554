"""A page about stores: one HTML file with pictures and tables, which loads nothing.

Needs the extras ``library`` and ``page``; only ``messagestore page`` imports it.
"""
