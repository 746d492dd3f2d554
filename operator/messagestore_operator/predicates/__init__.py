"""Reading the `where` of resources within bounds: a text of a tenant may cost its own resource, and nobody else.

Nothing is imported here: the process that reads holds the parser and little besides.
"""
