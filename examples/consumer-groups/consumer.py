"""One member of a group of consumers: reads what is its own from the position that it kept, and keeps the next one.

Usage: consumer.py STORE MEMBER SIZE FOLDER [START]
FOLDER keeps the positions; START is the last position that a new member takes as read (0).
"""

import sys
from pathlib import Path

from messagestore.reader import Reader

BATCH = 2

uri, member, size, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
kept = folder / f"{member}-of-{size}"
position = int(kept.read_text()) if kept.exists() else int(sys.argv[5]) if len(sys.argv) > 5 else 0
group = {"consumer_group_member": member, "consumer_group_size": size}
with Reader(uri) as store:
    while batch := list(store.get_category_messages("order", position + 1, BATCH, **group)):
        for message in batch:
            sys.stdout.write(f"{message.global_position} {message.stream_name} {message.type}\n")
        position = batch[-1].global_position
        kept.write_text(str(position))
