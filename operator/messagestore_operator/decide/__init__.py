"""All policy of the operator: pure functions from a snapshot to a decision.

They use no client, no clock and no randomness: all input is in the snapshot, all output in the decision.
"""
