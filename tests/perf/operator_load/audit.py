"""Requests in the API server's audit log: who asked for what, and when, to the microsecond."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Request:
    """An answered request; times are seconds since 1970."""

    user: str
    verb: str
    resource: str
    name: str
    arrived: float
    answered: float
    status: int


def flags(folder: Path, operator: str) -> list[str]:
    """An API server's flags that log the operator's requests, and the creation of streams, in a file of the folder."""
    kinds = [{"group": "messagestore.dev", "resources": ["messagestreams"]}]
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "Metadata", "users": [operator]},
            {"level": "Metadata", "verbs": ["create"], "resources": kinds},
            {"level": "None"},
        ],
    }
    file = folder / "audit-policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    # One file: files rotated at 100 MB would not be read.
    return [f"--audit-policy-file={file}", f"--audit-log-path={_log(folder)}", "--audit-log-maxsize=10000"]


def requests(folder: Path) -> list[Request]:
    """All logged requests, in order of arrival; watches only if they have ended."""
    with _log(folder).open() as lines:
        return sorted((_request(json.loads(line)) for line in lines), key=lambda request: request.arrived)


def limited(found: Iterable[Request], operator: str) -> list[Request]:
    """The operator's rate-limited requests: renewals of the leader's Lease have their own connection."""
    return [one for one in found if one.user == operator and one.verb != "watch" and "operator-leader" not in one.name]


def delays(found: Iterable[Request], operator: str) -> dict[str, float]:
    """For each stream, the seconds from its creation to the creation of its first application, by answers."""
    applied: dict[str, float] = {}
    launched: dict[str, float] = {}
    for request in found:
        if request.verb != "create" or request.status != 201:
            continue
        if request.resource == "messagestreams":
            applied[request.name] = request.answered
        elif request.resource == "sparkapplications" and request.user == operator:
            launched.setdefault(request.name.partition("-ingest-")[0], request.answered)
    return {name: launched[name] - moment for name, moment in applied.items() if name in launched}


def by_second(arrivals: Iterable[float]) -> Counter[int]:
    """The number of arrivals in each second."""
    return Counter(int(moment) for moment in arrivals)


def most_at_once(arrivals: Iterable[float], rate: float) -> float:
    """The most requests in any span of time, less what the rate allows in it: the burst of a limit is its maximum."""
    level = most = 0.0
    last = 0.0
    for moment in arrivals:
        level = max(0.0, level - (moment - last) * rate) + 1
        most, last = max(most, level), moment
    return most


def tally(found: Iterable[Request]) -> Mapping[str, int]:
    """How often each verb was used on each resource, the most frequent first."""
    return dict(Counter(f"{request.verb} {request.resource}" for request in found).most_common())


def _log(folder: Path) -> Path:
    return folder / "audit.log"


def _request(event: dict[str, object]) -> Request:
    about = _mapping(event.get("objectRef"))
    subresource = f"/{about['subresource']}" if "subresource" in about else ""
    return Request(
        user=str(_mapping(event["user"])["username"]),
        verb=str(event["verb"]),
        resource=f"{about.get('resource', event['requestURI'])}{subresource}",
        name=str(about.get("name", "")),
        arrived=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
        status=int(str(_mapping(event.get("responseStatus")).get("code", 0))),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _seconds(stamp: object) -> float:
    return datetime.fromisoformat(str(stamp)).timestamp()
