"""What operator and job exchange: the run document goes in, the run report comes out."""
