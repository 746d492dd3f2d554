"""A shop with topic orders, and the consumer of group billing.

Usage: shop.py BROKERS open             make the topic
       shop.py BROKERS order FIRST END  send the orders from FIRST on, before END
       shop.py BROKERS bill MOST        handle orders, until there are none
       shop.py BROKERS lose             delete the topic, and so what the group has committed
"""

import json
import sys
import time

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, GROUP, PARTITIONS = "orders", "billing", 3
PATIENCE_SECONDS = 5.0


def open_shop(brokers: str) -> None:
    """Make the topic, which keeps its records for ever."""
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})])[TOPIC].result()


def order(brokers: str, first: int, end: int) -> None:
    """Send orders."""
    producer = Producer({"bootstrap.servers": brokers})
    for number in range(first, end):
        value = json.dumps({"order": number}).encode()
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    producer.flush()


def bill(brokers: str, most: int) -> None:
    """Handle orders, each committed once it is handled, and print their numbers."""
    settings = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": brokers, **settings})
    billed: list[int] = []
    try:
        consumer.subscribe([TOPIC])
        while len(billed) < most and (message := _next(consumer)) is not None:
            billed.append(json.loads(message.value() or b"")["order"])
            consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()
    sys.stdout.write(f"billed {len(billed)} orders: {' '.join(map(str, sorted(billed)))}\n")


def _next(consumer: Consumer) -> Message | None:
    """The next order; None once the consumer has its partitions, and nothing comes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            return message
        if not consumer.assignment():
            deadline = time.monotonic() + PATIENCE_SECONDS
    return None


def lose(brokers: str) -> None:
    """Delete the topic."""
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.delete_topics([TOPIC])[TOPIC].result()


address, command, *numbers = sys.argv[1:]
{"open": open_shop, "order": order, "bill": bill, "lose": lose}[command](address, *map(int, numbers))
