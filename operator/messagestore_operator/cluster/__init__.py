"""The operator's input and output: everything that speaks with the Kubernetes API, asynchronously."""
