"""The library for applications: read a message store, and write to its sources. Needs neither Spark nor a JVM."""
