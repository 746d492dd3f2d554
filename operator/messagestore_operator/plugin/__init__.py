"""``kubectl messagestore``: look at the three kinds in a cluster, and act on them, with the caller's own rights.

What can't be done raises UserError, and what the API server refuses KubectlError; ``options.reaching`` tells both.
"""
