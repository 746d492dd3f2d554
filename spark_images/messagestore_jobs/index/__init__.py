"""An index of a store's ids and of its streams' next positions, derived from its tables and kept beside them."""
