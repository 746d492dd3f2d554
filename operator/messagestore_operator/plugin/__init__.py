"""``kubectl messagestore``: look at the three kinds in a cluster, and act on them, with the caller's own rights."""
