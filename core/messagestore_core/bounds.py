"""The bounds of a record, for those who write records and those who judge them; the Spark extension has the same."""

from datetime import UTC, datetime

LONGEST_TEXT = 1024
"""Bytes of an id, a name or another short field."""
LONGEST_ERROR = 32_768
"""Characters."""
MOST_HEADERS = 1_000
DEEPEST = 1_000
"""Levels of objects and arrays in a record, which is the first."""
MOST_KEYS = 100_000
"""Keys of objects within one another, in one record."""
MOST_ATTEMPTS = 1_000_000
LARGEST_VERSION = (1 << 31) - 1
"""The largest schemaVersion."""
LARGEST_NUMBER = 10**18 - 1
"""Whole numbers have at most 18 digits."""
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
"""The last time that a message may have or expire at: the end of the year 9999."""

MOST_IDS, MOST_RULES = 1_000, 64
"""Not of a record: message ids that one rule of a RetentionPolicy can name, and such rules."""
