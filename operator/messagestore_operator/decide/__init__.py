"""All policy of the operator: pure functions from one snapshot to what is to be done about it.

No client, no clock and no randomness: what is known is in the snapshot, what is wanted in the decision.
"""
