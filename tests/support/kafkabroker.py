"""A real Kafka broker on free ports of this machine, for as long as tests need it.

One node, with KRaft. One listener is open to all, the others require authentication: by SCRAM over plain text, by SCRAM
or a token over TLS, and by a client's certificate, with a new certificate authority. One user, bob, may do what ACLs
allow; the others may do anything.
"""

import base64
import os
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hack.downloads import FOLDERS

from messagestore_core.contract.records import KafkaCertificate, KafkaCluster, KafkaCredentials, KafkaOauth
from support.certificates import certify, certify_one
from support.servers import free_ports, wait_until_it_listens
from support.tokenserver import AUDIENCE, CLIENT_ID, CLIENT_SECRET, ISSUER, SCOPE, TokenServer, make_keys, token_server
from support.waiting import scaled

START_SECONDS = 90
USER, PASSWORD = "alice", 'pass"word\\of alice'
BOUND, BOUND_PASSWORD = "bob", "password of bob"

RIGHT = KafkaCredentials(username="MESSAGESTORE_KAFKA_1_USERNAME", password="MESSAGESTORE_KAFKA_1_PASSWORD")
WRONG = KafkaCredentials(username="MESSAGESTORE_KAFKA_2_USERNAME", password="MESSAGESTORE_KAFKA_2_PASSWORD")
NAMELESS = KafkaCredentials(username="MESSAGESTORE_KAFKA_3_USERNAME", password="MESSAGESTORE_KAFKA_3_PASSWORD")
CLIENT = KafkaCredentials(username="MESSAGESTORE_KAFKA_4_CLIENT_ID", password="MESSAGESTORE_KAFKA_4_CLIENT_SECRET")
OF_TWO_LINES = KafkaCredentials(username="MESSAGESTORE_KAFKA_6_USERNAME", password="MESSAGESTORE_KAFKA_6_PASSWORD")
BOUND_USER = KafkaCredentials(username="MESSAGESTORE_KAFKA_5_USERNAME", password="MESSAGESTORE_KAFKA_5_PASSWORD")
ENVIRONMENT = {
    RIGHT.username: USER,
    RIGHT.password: PASSWORD,
    WRONG.username: USER,
    WRONG.password: "not-the-password",
    NAMELESS.password: PASSWORD,
    OF_TWO_LINES.username: USER,
    OF_TWO_LINES.password: "not-the-password\nsecond-line",
    BOUND_USER.username: BOUND,
    BOUND_USER.password: BOUND_PASSWORD,
    CLIENT.username: CLIENT_ID,
    CLIENT.password: CLIENT_SECRET,
}
"""Environment variables that a pod would have from Secrets. A JVM keeps the environment of its start."""

_LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL", "CONTROLLER")
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{CONTROLLER}
listeners={listeners}
advertised.listeners={advertised}
controller.listener.names=CONTROLLER
listener.security.protocol.map={protocols}
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={login}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={login}
listener.name.sasl_ssl.sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config={oauth_login}
listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class={oauth}.OAuthBearerValidatorCallbackHandler
sasl.oauthbearer.jwks.endpoint.url=file://{jwks}
sasl.oauthbearer.expected.audience={audience}
sasl.oauthbearer.expected.issuer={issuer}
listener.name.ssl.ssl.client.auth=required
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
log.dirs={home}/data
num.partitions=1
auto.create.topics.enable=false
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{user};User:{client};User:CN=client
log.retention.ms=-1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass
class Broker:
    """The broker; tests may kill it and restart it with its data."""

    home: Path
    jars: Path
    ports: dict[str, int]
    ca_file: str
    client: KafkaCertificate
    """A client's certificate by the authority, and its key."""
    tokens: TokenServer
    _process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def address(self) -> str:
        """The address of the open listener."""
        return f"127.0.0.1:{self.ports['PLAINTEXT']}"

    def cluster(self) -> KafkaCluster:
        """The cluster in a run document, without authentication."""
        return KafkaCluster(bootstrap_servers=self.address)

    def secured(self, user: KafkaCredentials = RIGHT, *, tls: bool = False) -> KafkaCluster:
        """The cluster in a run document, with authentication."""
        protocol = "SASL_SSL" if tls else "SASL_PLAINTEXT"
        return KafkaCluster(
            bootstrap_servers=f"127.0.0.1:{self.ports[protocol]}",
            protocol=protocol,
            mechanism="SCRAM-SHA-512",
            environment=user,
            ca_file=self.ca_file if tls else None,
        )

    def by_certificate(self, client: KafkaCertificate | None = None) -> KafkaCluster:
        """The cluster in a run document, for a client with a certificate: by default one that the brokers know."""
        return KafkaCluster(
            bootstrap_servers=f"127.0.0.1:{self.ports['SSL']}",
            protocol="SSL",
            ca_file=self.ca_file,
            client_certificate=client or self.client,
        )

    def by_token(self, client: KafkaCredentials = CLIENT) -> KafkaCluster:
        """The cluster in a run document, for a client that gets tokens."""
        oauth = KafkaOauth(token_endpoint=self.tokens.url, scope=SCOPE, ca_file=self.ca_file)
        return self.secured(client, tls=True).model_copy(update={"mechanism": "OAUTHBEARER", "oauth": oauth})

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self.home / "broker.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *_java(self.jars, "-Xmx384m"),
                    f"-D{_ALLOWED}=file://{self.home}/jwks.json",
                    "kafka.Kafka",
                    str(self.home / "server.properties"),
                ],
                env=_environment(self.home),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        # Brokers open their ports only once they are ready.
        wait_until_it_listens("the broker", self._process, self.ports["PLAINTEXT"], log, START_SECONDS)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(timeout=scaled(20))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


@contextmanager
def running_broker(settings: str = "") -> Iterator[Broker]:
    """A new broker with its own folder, and more settings if given; ended afterwards."""
    jars = FOLDERS["kafka"]()
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        home = Path(folder)
        authority, *server = certify(home)
        token_key, jwks = make_keys(home)
        with token_server(token_key, *server) as tokens:
            ports = _configured(home, authority, *server, jwks)
            with (home / "server.properties").open("a") as file:
                file.write(settings)
            _format(home, jars)
            certificate, key = certify_one(home, "client", "extendedKeyUsage=clientAuth")
            client = KafkaCertificate(certificate_file=str(certificate), key_file=str(key))
            broker = Broker(home, jars, ports, str(authority), client, tokens)
            try:
                broker.start()
                yield broker
            finally:
                broker.stop()


def _configured(home: Path, authority: Path, certificate: Path, key: Path, jwks: Path) -> dict[str, int]:
    """Write the broker's settings; its ports by listener."""
    keystore = home / "keystore.pem"
    keystore.write_bytes(key.read_bytes() + certificate.read_bytes())
    ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
    addresses = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    advertised = ",".join(address for name, address in addresses.items() if name != "CONTROLLER")
    listeners = ",".join(addresses.values())
    protocols = {name: "PLAINTEXT" if name == "CONTROLLER" else name for name in ports}
    settings = _SETTINGS.format(
        home=home,
        keystore=keystore,
        authority=authority,
        jwks=jwks,
        audience=AUDIENCE,
        user=USER,
        client=CLIENT_ID,
        issuer=ISSUER,
        protocols=",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        listeners=listeners,
        advertised=advertised,
        login=_LOGIN,
        oauth=_OAUTH,
        oauth_login=f"{_OAUTH}.OAuthBearerLoginModule required;",
        **ports,
    )
    (home / "server.properties").write_text(settings)
    return ports


def _format(home: Path, jars: Path) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = [*_java(jars, "-Xmx128m"), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]
    done = subprocess.run(
        [*tool, "-c", str(home / "server.properties")],
        env=_environment(home),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the broker's folder could not be made:\n{done.stdout}\n{done.stderr}"[-4000:])


def _java(jars: Path, memory: str) -> list[str]:
    return ["java", memory, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]


def _environment(home: Path) -> dict[str, str]:
    """The environment without the JVM options of the user who runs the tests."""
    return {"PATH": os.environ["PATH"], "HOME": str(home)}
