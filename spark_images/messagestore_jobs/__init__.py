"""The jobs: what a run does to the store, told by a run document and nothing else."""
