"""The operator's input and output: all asynchronous use of the Kubernetes API."""
