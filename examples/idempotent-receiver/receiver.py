"""Books payments on standard input, each once however often it comes.

Usage: receiver.py DATABASE
The id and what it brings about are one transaction: after a crash both are there, or neither.
"""

import json
import sqlite3
import sys
from decimal import Decimal

database = sqlite3.connect(sys.argv[1])
database.execute("create table if not exists received (message_id text primary key)")
database.execute("create table if not exists booking (account text, cents integer)")
for line in sys.stdin:
    message = json.loads(line, parse_float=Decimal)
    with database:
        new = database.execute("insert or ignore into received values (?)", [message["messageId"]]).rowcount == 1
        if new:
            cents = int(message["payload"]["amount"] * 100)
            database.execute("insert into booking values (?, ?)", [message["streamName"], cents])
    word = "booked" if new else "known"
    by, position = (message["headers"][name] for name in ("x-replay-job", "x-original-position"))
    sys.stdout.write(f"{word} {message['messageId']}, number {position} of {by}\n")
