"""Messages of older envelope versions, brought to the current one as they are read; what is stored stays as it came.

``rules`` has the declaration, also that of a store for whoever reads the store alone; ``rows`` carries it out over
Python and Arrow, and the jobs' ``rows.versions`` over Spark.
"""
