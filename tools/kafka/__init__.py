"""A Kafka broker for the tests."""
