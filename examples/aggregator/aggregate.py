"""Bids of whole auctions on standard input, in order of sequence; the best of each on standard output.

The id of a quote is made from its auction, so that a second run makes duplicates and nothing else.
"""

import json
import sys
from itertools import groupby

bids = (json.loads(line) for line in sys.stdin)
for auction, group in groupby(bids, key=lambda bid: bid["sequenceId"]):
    best = min(group, key=lambda bid: bid["payload"]["price"])
    quote = {
        "messageId": f"quote-{auction}",
        "streamName": f"quote-{auction}",
        "type": "Quote",
        "causationId": best["messageId"],
        "correlationId": auction,
        "payload": best["payload"],
    }
    sys.stdout.write(json.dumps(quote) + "\n")
