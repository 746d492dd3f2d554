"""One member of a consumer group: reads its messages after the position that it saved, and saves the new position.

Usage: consumer.py STORE MEMBER SIZE FOLDER [START]
FOLDER has the saved positions; START is the position after which a new member starts (0).
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
