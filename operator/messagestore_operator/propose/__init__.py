"""A MessageStream that fits a folder's files: a sample, the shape of its records, where fields are, the manifest."""
