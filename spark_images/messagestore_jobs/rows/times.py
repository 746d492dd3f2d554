"""Times in expressions. No time of a row becomes a ``datetime`` by Spark, which takes it in the process' time zone."""

from datetime import datetime

from pyspark.sql import Column
from pyspark.sql import functions as F


def instant(moment: datetime) -> Column:
    """A moment with a time zone as a literal, which also prunes files by statistics.

    ``F.lit`` would make a ``java.sql.Timestamp``, whose days before 1582-10-15 are of the Julian calendar.
    """
    return F.expr(f"timestamp '{moment.isoformat()}'")
