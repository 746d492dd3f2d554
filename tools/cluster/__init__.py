"""A kind cluster for trying and testing the project, also on a machine that reaches no container registry."""
