"""The operator: the three kinds, and what follows from them."""
