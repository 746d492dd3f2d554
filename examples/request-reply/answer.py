"""Answer every unfinished request about a known customer, in the stream that its reply_to names.

Usage: answer.py REQUESTS LANDING STATUS
An answer's id comes from the request's id, so a second answer is a duplicate.
"""

import sys

from messagestore.reader import Reader
from messagestore.writer import NewMessage, Writer

LIMITS = {"ada": 500, "bob": 50}

requests, landing, status = sys.argv[1:]
with Reader(requests) as store, Writer(landing, lifecycle=status) as writer:
    for request in store.unfinished():
        check = request.json()
        if check["customer"] not in LIMITS:
            continue
        writer.write(
            NewMessage(
                message_id=f"answer-to-{request.message_id}",
                stream_name=request.reply_to,
                type="CreditChecked",
                correlation_id=request.correlation_id,
                causation_id=request.message_id,
                metadata=request.metadata.encode(),
                payload={"granted": check["amount"] <= LIMITS[check["customer"]]},
            )
        )
        writer.mark_completed(request.message_id)
