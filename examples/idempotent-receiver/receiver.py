"""Book the payments on standard input, each one once, however often it arrives.

Usage: receiver.py DATABASE
One transaction writes the id and the booking: after a crash the database has both, or neither.
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
