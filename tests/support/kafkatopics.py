"""Topics of a broker, written and read by Kafka's own client in the tests' JVM."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from support.kafkabroker import Broker
from support.waiting import wait_until

_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_names = count(1)


@dataclass(frozen=True)
class Record:
    """A record to send, or a received one."""

    value: bytes | None
    key: bytes | None = None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    partition: int | None = None
    timestamp: int | None = None
    offset: int | None = None
    every_header: tuple[tuple[str, bytes | None], ...] = field(default=(), compare=False)
    """In order, with doubles and nulls, which ``headers`` lacks."""

    def as_it_is(self) -> tuple[object, ...]:
        """All of a received record but for its offset."""
        return self.partition, self.timestamp, self.key, self.value, self.every_header


@dataclass
class Topics:
    """All topics of one broker, and its users.

    A change waits until the broker shows it: the answer only says that the controller has accepted it.
    """

    spark: SparkSession
    broker: Broker

    def name(self) -> str:
        """A topic name that no other test uses."""
        return f"topic-{next(_names)}"

    def make(self, name: str | None = None, partitions: int = 1, **settings: str) -> str:
        """Create a topic."""
        name = name or self.name()
        topic = self._kafka.clients.admin.NewTopic(name, partitions, 1)
        if settings:
            configured = self._jvm.java.util.HashMap()
            for setting, value in settings.items():
                configured.put(setting.replace("_", "."), value)
            topic = topic.configs(configured)
        self._admin.createTopics(self._list([topic])).all().get()
        wait_until(lambda: self.exists(name), 30, lambda: f"{name} is made")
        return name

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions."""
        more = self._jvm.java.util.HashMap()
        more.put(name, self._kafka.clients.admin.NewPartitions.increaseTo(partitions))
        self._admin.createPartitions(more).all().get()
        wait_until(lambda: self._partitions(name) == partitions, 30, lambda: f"{name} has {partitions} partitions")

    def _partitions(self, name: str) -> int:
        described = self._admin.describeTopics(self._list([name])).topicNameValues().get(name).get()
        return int(described.partitions().size())

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self._admin.deleteTopics(self._list([name])).all().get()
        wait_until(lambda: not self.exists(name), 30, lambda: f"{name} is deleted")

    def exists(self, name: str) -> bool:
        """Whether there is a topic of this name."""
        return bool(self._admin.listTopics().names().get().contains(name))

    def forget_group(self, name: str) -> None:
        """Delete a consumer group, as the broker does once it is too old."""
        self._admin.deleteConsumerGroups(self._list([name])).all().get()

    def commit(self, group: str, name: str, offsets: Mapping[int, int]) -> None:
        """Commit a group's offsets of a topic, by partition."""
        places = self._jvm.java.util.HashMap()
        for partition, offset in offsets.items():
            place = self._kafka.common.TopicPartition(name, partition)
            places.put(place, self._kafka.clients.consumer.OffsetAndMetadata(offset))
        self._admin.alterConsumerGroupOffsets(group, places).all().get()

    def remove_before(self, name: str, offset: int, partition: int = 0) -> None:
        """Delete the records before an offset, as retention does."""
        records = self._jvm.java.util.HashMap()
        records.put(self._kafka.common.TopicPartition(name, partition), self._before(offset))
        self._admin.deleteRecords(records).all().get()

    def change(self, name: str, setting: str, value: str) -> None:
        """Change a topic's setting."""
        admin_of, resource_of = self._kafka.clients.admin, self._kafka.common.config.ConfigResource
        change = admin_of.AlterConfigOp(admin_of.ConfigEntry(setting, value), admin_of.AlterConfigOp.OpType.SET)
        changes, topic = self._jvm.java.util.HashMap(), resource_of(resource_of.Type.TOPIC, name)
        changes.put(topic, self._list([change]))
        self._admin.incrementalAlterConfigs(changes).all().get()

        def shown() -> str:
            configured = self._admin.describeConfigs(self._list([topic])).all().get().get(topic)
            return str(configured.get(setting).value())

        wait_until(lambda: shown() == value, 30, lambda: f"{setting} of {name} is {value}")

    def let_in(self, user: str, password: str) -> None:
        """Create a user with a password for SCRAM-SHA-512."""
        admin_of = self._kafka.clients.admin
        how = admin_of.ScramCredentialInfo(admin_of.ScramMechanism.SCRAM_SHA_512, 4096)
        change = admin_of.UserScramCredentialUpsertion(user, how, password)
        self._admin.alterUserScramCredentials(self._list([change])).all().get()

        def known() -> bool:
            return bool(self._admin.describeUserScramCredentials().users().get().contains(user))

        wait_until(known, 30, lambda: f"the broker knows {user}")

    def allow(self, user: str, *acls: tuple[str, str, str]) -> None:
        """Let a user do what the ACLs say: kind of resource, its name or ``beginning*``, operation."""
        bindings = [self._acl(user, *acl) for acl in acls]
        self._admin.createAcls(self._list(bindings)).all().get()

        def in_force(binding: JavaObject) -> bool:
            return not self._admin.describeAcls(binding.toFilter()).values().get().isEmpty()

        wait_until(lambda: all(map(in_force, bindings)), 30, lambda: f"{acls} hold for {user}")

    def _acl(self, user: str, kind: str, name: str, operation: str) -> JavaObject:
        acl_of, resource_of = self._kafka.common.acl, self._kafka.common.resource
        pattern = resource_of.PatternType.valueOf("PREFIXED" if name.endswith("*") else "LITERAL")
        where = resource_of.ResourcePattern(resource_of.ResourceType.valueOf(kind), name.removesuffix("*"), pattern)
        what = acl_of.AclOperation.valueOf(operation)
        allowed = acl_of.AclPermissionType.valueOf("ALLOW")
        return acl_of.AclBinding(where, acl_of.AccessControlEntry(f"User:{user}", "*", what, allowed))

    def send(self, name: str, *records: Record | bytes, commit: bool | None = None) -> None:
        """Send records; if ``commit`` is given, in a transaction that is committed or aborted."""
        properties = self._properties()
        properties.put("linger.ms", "20")
        if commit is not None:
            properties.put("transactional.id", f"{name}-{next(_names)}")
        producer = self._kafka.clients.producer.KafkaProducer(self._with_serializers(properties))
        try:
            if commit is not None:
                producer.initTransactions()
                producer.beginTransaction()
            sent = [
                producer.send(self._record(name, record if isinstance(record, Record) else Record(record)))
                for record in records
            ]
            producer.flush()
            for one in sent:
                # It raises if the broker has not taken the record; flush does not.
                one.get()
            if commit is not None:
                producer.commitTransaction() if commit else producer.abortTransaction()
        finally:
            producer.close()

    def read(self, name: str, *, committed: bool = True) -> list[Record]:
        """The committed records, or all records, by partition and offset."""
        properties = self._properties()
        properties.put("isolation.level", "read_committed" if committed else "read_uncommitted")
        for part in ("key", "value"):
            properties.put(f"{part}.deserializer", _DESERIALIZER)
        consumer = self._kafka.clients.consumer.KafkaConsumer(properties)
        try:
            places = [
                self._kafka.common.TopicPartition(name, info.partition()) for info in consumer.partitionsFor(name)
            ]
            consumer.assign(self._list(places))
            consumer.seekToBeginning(self._list(places))
            ends = {place.partition(): end for place, end in consumer.endOffsets(self._list(places)).items()}
            found: list[Record] = []
            while any(consumer.position(place) < ends[place.partition()] for place in places):
                found += map(_read, consumer.poll(self._jvm.java.time.Duration.ofMillis(200)).iterator())
            return sorted(found, key=lambda r: (r.partition, r.offset))
        finally:
            consumer.close()

    def _before(self, offset: int) -> JavaObject:
        """Call a static method that py4j can't, as a method of the instance has the same name."""
        gateway = self.spark.sparkContext._gateway
        types = gateway.new_array(self._jvm.java.lang.Class, 1)
        types[0] = self._jvm.java.lang.Long.TYPE
        values = gateway.new_array(self._jvm.java.lang.Object, 1)
        values[0] = offset
        kind = self._jvm.java.lang.Class.forName("org.apache.kafka.clients.admin.RecordsToDelete")
        return kind.getMethod("beforeOffset", types).invoke(None, values)

    def _record(self, name: str, record: Record) -> JavaObject:
        headers = self._kafka.common.header.internals.RecordHeaders()
        for header, value in (*record.headers.items(), *record.every_header):
            headers.add(header, value)
        return self._kafka.clients.producer.ProducerRecord(
            name, record.partition, record.timestamp, record.key, record.value, headers
        )

    def _properties(self) -> JavaObject:
        properties = self._jvm.java.util.Properties()
        properties.put("bootstrap.servers", self.broker.address)
        return properties

    def _with_serializers(self, properties: JavaObject) -> JavaObject:
        for part in ("key", "value"):
            properties.put(f"{part}.serializer", _SERIALIZER)
        return properties

    @cached_property
    def _admin(self) -> JavaObject:
        """One client for all tests, as starting one takes longer than most of what it is asked."""
        return self._kafka.clients.admin.Admin.create(self._properties())

    def _list(self, items: Iterable[Any]) -> JavaObject:
        found = self._jvm.java.util.ArrayList()
        for item in items:
            found.add(item)
        return found

    @property
    def _jvm(self) -> Any:
        return self.spark._jvm

    @property
    def _kafka(self) -> Any:
        return self._jvm.org.apache.kafka


def _read(record: JavaObject) -> Record:
    values = ((header.key(), header.value()) for header in record.headers().toArray())
    headers = tuple((name, None if value is None else bytes(value)) for name, value in values)
    return Record(
        value=None if record.value() is None else bytes(record.value()),
        key=None if record.key() is None else bytes(record.key()),
        headers={name: value or b"" for name, value in headers},
        every_header=headers,
        partition=record.partition(),
        timestamp=record.timestamp(),
        offset=record.offset(),
    )
