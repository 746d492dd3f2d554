"""Runs to launch, for tests of their objects."""

from typing import Any

from messagestore_core.contract.run_document import RunDocument
from messagestore_operator.api import MessageStream
from messagestore_operator.cluster.pods import Launch
from messagestore_operator.decide.actions import CreateRun
from messagestore_operator.decide.snapshot import DriverControl, RunRef
from messagestore_operator.settings import DriverSettings, SparkSettings
from messagestore_operator.translate.ingest import ingest_document
from messagestore_operator.translate.secrets import SecretVariable, Use
from messagestore_operator.translate.storage import ingest_access
from support.helm import SPARK_IMAGE

UID = "0b6f7f3a-8f6e-4c53-9a0e-1d2c3b4a5968"


def stream(name: str = "orders", uid: str = UID, namespace: str = "default", **spec: Any) -> MessageStream:
    """A stream whose storage needs credentials and a certificate authority."""
    document = {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "MessageStream",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "generation": 1},
        "spec": {
            "table": {"uri": f"s3a://lake/{name}"},
            "storage": {
                "endpoint": "https://objects.example.org",
                "credentialsSecretRef": {"name": "lake-credentials"},
                "caSecretRef": {"name": "lake-ca"},
            },
            "source": {"files": {"uri": f"s3a://landing/{name}/"}},
            "trigger": {"interval": "PT5M"},
            **spec,
        },
    }
    return MessageStream.model_validate(document)


def launch(owner: MessageStream | None = None, name: str = "orders-ingest-1", **settings: Any) -> Launch:
    """An ingest run with an additional variable from a Secret."""
    owner = owner or stream()
    document: RunDocument = ingest_document(owner, name, None)
    action = CreateRun(
        run=RunRef(owner.metadata.namespace, name, 1, "ingest"),
        document=document,
        control=DriverControl(),
        access=ingest_access(owner),
        variables=(SecretVariable("MESSAGESTORE_SCRUB_KEY", "scrub-key", "key", Use.SEAL),),
        spark=owner.spec.spark,
    )
    return Launch(action, owner, replace_spark(**settings), DriverSettings())


def replace_spark(**settings: Any) -> SparkSettings:
    """The operator's defaults, with changes."""
    return SparkSettings(image=SPARK_IMAGE).model_copy(update=settings)
