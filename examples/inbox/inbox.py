"""Book payments of a store into a PostgreSQL database, each exactly once, however often this program is killed.

Usage: inbox.py STORE DATABASE
DATABASE is a connection string of libpq, such as "host=127.0.0.1 dbname=shop". It ends when nothing is left to book.
"""

import sys

import psycopg

from messagestore.consuming import Consumer, PostgresCursors

uri, where = sys.argv[1:3]
with psycopg.connect(where) as database:
    database.execute(PostgresCursors.TABLE.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    database.execute("CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, cents bigint NOT NULL)")
    database.commit()
    cursors = PostgresCursors(lambda: psycopg.connect(where), "inbox")
    with Consumer(uri, "inbox", category="payment", state=cursors, batch_size=2) as consumer:
        while batch := consumer.batch(timeout=0):
            for message in batch:
                database.execute(
                    "INSERT INTO account VALUES (%s, %s) "
                    "ON CONFLICT (name) DO UPDATE SET cents = account.cents + excluded.cents",
                    (message.stream_name, message.json()["cents"]),
                )
                sys.stdout.write(f"{message.global_position} {message.stream_name}\n")
            batch.move(database)
            database.commit()
