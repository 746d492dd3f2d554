"""The rows of a store's tables as Spark reads and writes them."""
