"""What the operator's settings allow tenants: those who may create the three kinds in a namespace.

This module imports nothing, as the process that checks predicates loads the parser and little else.
"""
