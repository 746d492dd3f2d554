"""Carry out one run, from its document to its report; ``main`` does so in a pod."""
