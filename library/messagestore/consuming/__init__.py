"""Consume a store: handlers for its messages, cursors, and consumers that share the work.

>>> from messagestore.consuming import Consumer
>>> with Consumer("s3a://lake/orders", "billing", category="order") as consumer:
...     @consumer.on("Placed")
...     def placed(message):
...         ...
...     consumer.run()
"""

from messagestore.consuming.admin import Consumption, consumptions, delete, reset
from messagestore.consuming.batches import Batch, PostgresCursors, TransactionalCursors
from messagestore.consuming.consumer import Consumer
from messagestore.consuming.cursors import Change, CursorStore, Kept, ObjectCursors

__all__ = [
    "Batch",
    "Change",
    "Consumer",
    "Consumption",
    "CursorStore",
    "Kept",
    "ObjectCursors",
    "PostgresCursors",
    "TransactionalCursors",
    "consumptions",
    "delete",
    "reset",
]
