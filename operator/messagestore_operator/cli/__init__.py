"""The command line: check manifests, run them on this machine, print the CustomResourceDefinitions."""
