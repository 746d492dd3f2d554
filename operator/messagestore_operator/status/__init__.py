"""What is written on the resources: pure functions of a resource, what its runs reported, the store and the clock.

Of each kind there are figures (`stream`, `policy`, `replay`) and what people and tools read first, its phase and its
conditions (`stream_view`, `policy_view`, `replay_view`, `redelivery_view`). Decisions of a cluster and local runs
(`local_runs`) use the same.
"""
