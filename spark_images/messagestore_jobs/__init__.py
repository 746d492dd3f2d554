"""The jobs: what runs do to stores, by a run document and nothing else."""
