"""Read the bids of complete auctions from standard input, in sequence order; write a quote for each auction's best bid.

A quote's id comes from its auction, so a second run writes only duplicates.
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
