"""What an operator and a job tell each other: the run document in, the run report out."""
