"""Which ids a store holds, and where its streams go on: derived from its tables, and kept beside them."""
