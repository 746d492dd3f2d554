"""The applied resources: streams that run repeatedly, and policies that each purge one of them."""

from typing import Any

NAMESPACES = [f"team-{number}" for number in range(10)]


def streams(number: int, interval: str, continuous: int = 0) -> list[dict[str, Any]]:
    """MessageStreams, over all namespaces in turn.

    Args:
        number: how many.
        interval: between two starts of one stream's runs, in ISO 8601.
        continuous: how many of them, the last ones, have one continuous run.
    """
    triggers = [{"interval": interval}] * (number - continuous) + [{"continuous": {}}] * continuous
    return [_stream(place, trigger) for place, trigger in enumerate(triggers)]


def policies(number: int, minutes: int) -> list[dict[str, Any]]:
    """RetentionPolicies, each for one of the first streams.

    Args:
        number: how many.
        minutes: between two purges of one policy; some policies start in every minute.
    """
    return [_policy(place, minutes) for place in range(number)]


def _stream(place: int, trigger: dict[str, Any]) -> dict[str, Any]:
    name = _stream_name(place)
    spec = {
        "table": {"uri": f"s3a://lake/{name}"},
        "storage": {"endpoint": "https://objects.example.org", "credentialsSecretRef": {"name": "lake-credentials"}},
        "source": {"files": {"uri": f"s3a://landing/{name}/"}},
        "trigger": trigger,
    }
    return _resource("MessageStream", name, place, spec)


def _policy(place: int, minutes: int) -> dict[str, Any]:
    spec = {
        "streamRefs": [{"name": _stream_name(place)}],
        "trigger": {"schedule": {"cron": f"{place // len(NAMESPACES) % minutes}-59/{minutes} * * * *"}},
        "mode": "Enforce",
        "rules": [{"name": "old", "maxAge": "P90D"}],
    }
    return _resource("RetentionPolicy", f"policy-{place:03}", place, spec)


def _stream_name(place: int) -> str:
    return f"stream-{place:04}"


def _resource(kind: str, name: str, place: int, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACES[place % len(NAMESPACES)]}
    return {"apiVersion": "messagestore.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
