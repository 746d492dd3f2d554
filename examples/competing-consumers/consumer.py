"""One of several consumers that share the orders of a store; start as many as you like.

Usage: consumer.py STORE [SECONDS]
It ends after SECONDS without a message, or when it is told to by SIGTERM or Ctrl-C.
"""

import signal
import sys

from messagestore.consuming import Consumer

uri, patience = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else None
with Consumer(uri, "shipping", category="order") as consumer:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: consumer.stop())
    while message := consumer.receive(timeout=patience):
        sys.stdout.write(f"{message.global_position} {message.stream_name} {message.type}\n")
        sys.stdout.flush()
