"""JUnit, for tests of the Spark extension alone."""
