"""A kind cluster for trying and testing the project, even on a machine without access to a container registry."""
