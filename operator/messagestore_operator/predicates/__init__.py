"""Checks the `where` of resources within limits of time and memory, so that no tenant can block others.

Nothing is imported here: the process that checks has the parser and little else.
"""
