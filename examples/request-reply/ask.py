"""Ask for four credit checks: three for the checkout, one for billing; each request expires after a day.

Usage: ask.py LANDING
"""

import sys

from messagestore.writer import NewMessage, Writer

DAY = 86_400
REQUESTS = [
    ("check-1", "checkout-17", "answer-checkout", {"customer": "ada", "amount": 120}),
    ("check-2", "checkout-18", "answer-checkout", {"customer": "bob", "amount": 120}),
    ("check-3", "checkout-19", "answer-checkout", {"customer": "nobody knows", "amount": 1}),
    ("check-4", "billing-5", "answer-billing", {"customer": "ada", "amount": 800}),
]

with Writer(sys.argv[1]) as writer:
    for message_id, conversation, reply_to, payload in REQUESTS:
        writer.write(
            NewMessage(
                message_id=message_id,
                stream_name=f"creditCheck-{message_id}",
                type="CheckCredit",
                correlation_id=conversation,
                reply_to=reply_to,
                metadata={"correlationStreamName": conversation},
                payload=payload,
                ttl_seconds=DAY,
            )
        )
