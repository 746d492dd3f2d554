"""What purges and replays have frozen in a store, and what an erasure takes out of it."""
