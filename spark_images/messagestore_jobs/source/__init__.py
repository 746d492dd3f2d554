"""What arrives: files and topics, what of them waits, the next batch of it, and its records."""
