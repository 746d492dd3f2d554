"""Message stores for applications: read one, and write to what feeds one. Needs neither Spark nor a JVM."""
