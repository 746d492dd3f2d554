"""Sources: files and topics, what waits in them, the next batch, and its records."""
