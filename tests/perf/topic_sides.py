"""The sides of a topic that is put back: by a replay of records as they came, and by Spark's own Kafka sink.

Both send the same records, which an ingest kept, to an empty topic of a broker that runs beside them.
"""

import shutil
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from hack.downloads import jars_folder
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from tests.perf import data

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import KafkaSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.progress import Silent
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import run_ingest
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.rows.messages import read_messages
from messagestore_jobs.session import local_session
from support.kafkabroker import Broker, running_broker
from support.keptrecords import AS_IT_IS

Figures = dict[str, Any]
PARTITIONS = 4


def put_back(side: str, arguments: Figures) -> Figures:
    """Send what was kept of a topic of ``records`` to another one."""
    jars = sorted(map(str, jars_folder("spark-kafka", "4.1.3").glob("*.jar")))
    spark = local_session(cores=2, memory="6g", settings={"spark.jars": ",".join(jars)})
    with running_broker() as broker:
        small, large = (_kept(spark, broker, count) for count in (100_000, arguments["records"]))
        send = _replayed if side == "restore" else _written
        send(spark, broker, small, "warm")
        begun = time.perf_counter()
        send(spark, broker, large, "measured")
        seconds = time.perf_counter() - begun
        sent = _sent(spark, broker, "measured")
    return {
        "seconds": seconds,
        "records a second": round(sent["records"] / seconds),
        "MB a second": round(sent["bytes"] / seconds / 1e6, 1),
        "sent": f"{sent['records']} records of {sent['bytes']} bytes, {sent['digest']}",
    }


def same_records(figures: dict[str, Figures]) -> str:
    """Check that both sides sent the same records to the same partitions."""
    sent = Counter(f["sent"] for f in figures.values())
    if set(sent.values()) != {2}:
        raise AssertionError(f"the sides did not send the same: {figures}")
    return "same records in the same partitions"


def _replayed(spark: SparkSession, broker: Broker, store: Path, topic: str) -> None:
    work = Path(tempfile.mkdtemp(prefix="messagestore-perf-", dir=data.folder()))
    to = KafkaDestination(cluster=broker.cluster(), topic=topic, envelope="Original", create=True)
    task = ReplayTask(job_id=topic, order="Global", destination=to)
    run_replay(Run.of(data.document(data.copy(store, work / "store"), task, datetime.now(UTC)), spark, Silent()), None)
    shutil.rmtree(work)


def _written(spark: SparkSession, broker: Broker, store: Path, topic: str) -> None:
    _make(broker, topic)
    kept = F.col("record")
    headers = F.transform(kept["headers"], lambda one: F.struct(one["name"].alias("key"), one["value"].alias("value")))
    rows = read_messages(spark, Store(f"file://{store}")).select(
        kept["key"].alias("key"),
        F.when(kept["value_is_payload"], F.col("payload")).otherwise(kept["value"]).alias("value"),
        headers.alias("headers"),
        F.col("source.partition").cast("int").alias("partition"),
    )
    rows.write.format("kafka").options(**_access(broker), topic=topic).save()


def _kept(spark: SparkSession, broker: Broker, count: int) -> Path:
    """A store that kept the records of a topic; made once."""
    path = data.folder() / f"kept-records-{count}"
    if (path / "complete").exists():
        return path / "store"
    shutil.rmtree(path, ignore_errors=True)
    topic = f"kept-{count}"
    _make(broker, topic)
    headers = "array(named_struct('key', 'trace', 'value', cast(md5('t' || n) as binary)))"
    rows = (
        spark.range(count)
        .selectExpr("id n")
        .selectExpr(
            "cast('customer-' || (n % 5000) as binary) key",
            f"cast({data.PAYLOAD} as binary) value",
            f"{headers} headers",
            f"cast(n % {PARTITIONS} as int) partition",
        )
    )
    rows.write.format("kafka").options(**_access(broker), topic=topic).save()
    source = KafkaSource(cluster=broker.cluster(), topics=(topic,), keep_record=True, max_records_per_batch=250_000)
    document = data.document(f"file://{path}/store", IngestTask(source_id="kept", source=source, envelope=AS_IT_IS))
    run = Run.of(document, spark, Silent())
    open_folder(run.store)
    run_ingest(run)
    (path / "complete").touch()
    return path / "store"


def _make(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


def _sent(spark: SparkSession, broker: Broker, topic: str) -> Row:
    options = {
        **_access(broker),
        "subscribe": topic,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    rows = spark.read.format("kafka").options(**options).load()
    digest = F.xxhash64("partition", "key", "value", "headers").cast("decimal(38,0)")
    size = F.octet_length("key") + F.octet_length("value")
    found = rows.agg(
        F.count("*").alias("records"), F.sum(size).alias("bytes"), F.sum(digest).cast("string").alias("digest")
    ).first()
    assert found is not None
    return found


def _access(broker: Broker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.address}
