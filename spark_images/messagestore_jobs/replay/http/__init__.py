"""A replay to an HTTP endpoint: one request a message, as a CloudEvent."""
