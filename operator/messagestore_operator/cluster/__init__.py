"""The operator's input and output: all asynchronous use of the Kubernetes API.

What can't be done now raises ApiError; whoever asked tries again later.
"""
