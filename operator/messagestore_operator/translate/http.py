"""How a run connects to an HTTP endpoint: a part of its document, and the Secrets of its pods."""

import re
from dataclasses import dataclass

from messagestore_core.addresses import Reach
from messagestore_core.contract import destinations as contract
from messagestore_operator.api import ReplayJob, Resource
from messagestore_operator.api.destinations import Destination, HttpDestination
from messagestore_operator.api.replayjob import Path
from messagestore_operator.translate.common import as_document
from messagestore_operator.translate.secrets import SecretVariable, Use, digest
from messagestore_operator.translate.storage import CA_FOLDER, CertificateMount, job_uri


@dataclass(frozen=True)
class HttpNeeds:
    """The Secrets for one endpoint, which are in the resource's namespace."""

    header: SecretVariable | None = None
    authority: CertificateMount | None = None

    @property
    def named(self) -> tuple[tuple[str, SecretVariable | CertificateMount], ...]:
        """Each with the field that names it."""
        both = (("headerSecretRef", self.header), ("caSecretRef", self.authority))
        return tuple((field, need) for field, need in both if need is not None)


def endpoints_of(resource: Resource) -> list[tuple[Path, HttpDestination]]:
    """The endpoints that a resource sends to, each with its field."""
    places = resource.spec.places if isinstance(resource, ReplayJob) else ()
    return [((*path, "http"), to.http) for path, to in places if to.http is not None]


def http_needs(namespace: str, http: HttpDestination) -> HttpNeeds:
    """What a replay needs for an endpoint."""
    header, authority = http.header_secret_ref, http.ca_secret_ref
    variable = mount = None
    if header is not None:
        name = f"MESSAGESTORE_HTTP_{digest(namespace, header.name, header.key).upper()}"
        variable = SecretVariable(name, header.name, header.key, Use.HTTP)
    if authority is not None:
        folder = f"{CA_FOLDER}/http-{digest(namespace, authority.name, authority.key)}"
        mount = CertificateMount(authority.name, authority.key, folder, Use.HTTP)
    return HttpNeeds(variable, mount)


def http_destination(namespace: str, to: Destination, addresses: Reach) -> contract.HttpDestination:
    """The endpoint in the run document; ``addresses`` are those that its name may stand for."""
    http = to.http
    assert http is not None
    needs, folder, header = http_needs(namespace, http), http.delivery.dead_letter, http.header_secret_ref
    return contract.HttpDestination(
        url=http.url,
        envelope="CloudEventsBinary" if to.envelope == "CloudEventsBinary" else "CloudEvents",
        in_flight=http.max_in_flight,
        delivery=as_document(contract.HttpRetries, http.delivery, backoff_max=http.delivery.max_backoff.timedelta),
        dead_letter=contract.Folder(uri=job_uri(folder.files.uri.rstrip("/"))) if folder else None,
        ca_file=needs.authority.path if needs.authority else None,
        header=contract.HttpHeader(name=header.header, environment=needs.header.variable)
        if header and needs.header
        else None,
        addresses=addresses,
    )


def host_of(url: str) -> str:
    """The host of a URL; an IPv6 address keeps its brackets."""
    return re.sub(r"^https?://|(:[0-9]+)?([/?].*)?$", "", url)
