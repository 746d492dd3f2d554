"""Statuses of resources: pure functions of a resource, its runs' reports, the store and the clock.

Each kind has a module with its figures and its view for people and tools: phase and conditions. A replay with a trigger
has one of its own (``redelivery``). Decisions in a cluster and local runs (``local_runs``) use the same functions.
"""
