"""JUnit, for the tests of the Spark extension by itself."""
