"""Statuses of resources: pure functions of a resource, its runs' reports, the store and the clock.

Each kind has figures (``stream``, ``policy``, ``replay``) and a view for people and tools: its phase and its conditions
(``stream_view``, ``policy_view``, ``replay_view``, ``redelivery_view``). Decisions in a cluster and local runs
(``local_runs``) use the same functions.
"""
