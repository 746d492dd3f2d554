"""Messages of older envelope versions, brought to the current one as they are read; what is stored stays as it came.

The same rules for Spark (``columns``) and for Python and Arrow (``rows``), from one declaration; ``rules.declared`` is
that of a store, for whoever reads the store alone.
"""
