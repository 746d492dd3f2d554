"""Translate messages of older envelope versions to the current one as they are read; stored messages don't change.

``rules`` says what translators mean, and keeps them in the store for its readers. ``rows`` applies them in Python and
Arrow, and ``rows.versions`` of the jobs in Spark.
"""
