"""Checks the ``where`` of resources within limits of time and memory, so that no tenant can block others.

This module imports nothing, as the checking process loads the parser and little else.
"""
