"""How a run connects to an HTTP endpoint: a part of its document, and the Secrets of its pods."""

import re

from messagestore_core.addresses import Reach
from messagestore_core.contract import destinations as contract
from messagestore_operator.api import ReplayJob, Resource
from messagestore_operator.api.destinations import Destination, HttpDestination
from messagestore_operator.api.replayjob import Path
from messagestore_operator.translate.common import as_document
from messagestore_operator.translate.secrets import SecretVariable, Use, digest
from messagestore_operator.translate.storage import Needs, authority_of, job_uri


def endpoints_of(resource: Resource) -> list[tuple[Path, HttpDestination]]:
    """The endpoints that a resource sends to, each with its field."""
    places = resource.spec.places if isinstance(resource, ReplayJob) else ()
    return [((*path, "http"), to.http) for path, to in places if to.http is not None]


def http_needs(namespace: str, http: HttpDestination) -> Needs:
    """What a replay needs for an endpoint."""
    header, authority = _header(namespace, http), authority_of(namespace, http.ca_secret_ref, Use.HTTP)
    needs = (("headerSecretRef", header), ("caSecretRef", authority))
    return tuple((field, need) for field, need in needs if need is not None)


def _header(namespace: str, http: HttpDestination) -> SecretVariable | None:
    if (ref := http.header_secret_ref) is None:
        return None
    name = f"MESSAGESTORE_HTTP_{digest(namespace, ref.name, ref.key).upper()}"
    return SecretVariable(name, ref.name, ref.key, Use.HTTP)


def http_destination(namespace: str, to: Destination, addresses: Reach) -> contract.HttpDestination:
    """The endpoint in the run document; ``addresses`` are those that its name may stand for."""
    http = to.http
    assert http is not None
    folder, ref, header = http.delivery.dead_letter, http.header_secret_ref, _header(namespace, http)
    authority = authority_of(namespace, http.ca_secret_ref, Use.HTTP)
    return contract.HttpDestination(
        url=http.url,
        envelope="CloudEventsBinary" if to.envelope == "CloudEventsBinary" else "CloudEvents",
        in_flight=http.max_in_flight,
        delivery=as_document(contract.HttpRetries, http.delivery, backoff_max=http.delivery.max_backoff.timedelta),
        dead_letter=contract.Folder(uri=job_uri(folder.files.uri.rstrip("/"))) if folder else None,
        ca_file=authority.path if authority else None,
        header=contract.HttpHeader(name=ref.header, environment=header.variable) if ref and header else None,
        addresses=addresses,
    )


def host_of(url: str) -> str:
    """The host of a URL; an IPv6 address keeps its brackets."""
    return re.sub(r"^https?://|(:[0-9]+)?([/?].*)?$", "", url)
