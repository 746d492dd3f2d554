"""Translates resources to run documents: one pure function per kind; durations and quantities become numbers.

What makes a document or an access raises NotSupportedError if a resource asks for something that this release can't do,
such as a folder that is on no supported object store, or storages of a bucket that contradict each other.
"""
