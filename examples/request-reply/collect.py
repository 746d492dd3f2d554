"""Print the answers to one requester.

Usage: collect.py ANSWERS CATEGORY
"""

import sys

from messagestore.reader import Reader

with Reader(sys.argv[1]) as store:
    for answer in store.get_category_messages("answer", correlation=sys.argv[2]):
        word = "granted" if answer.json()["granted"] else "refused"
        sys.stdout.write(f"{answer.correlation_id}: {answer.causation_id} {word}\n")
