"""The seal of a message: a keyed hash over its envelope and payload, made as it is stored.

The same text is sealed in Spark (``columns``) and in Python (``rows``): see ``sealed``.
"""
