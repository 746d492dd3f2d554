"""Secrets on the tests' API server, labelled for their use."""

from support.apiserver import ApiServer


def make_secret(server: ApiServer, namespace: str, name: str, use: str | None) -> None:
    """A Secret with a label for a use, or without."""
    labels = {"labels": {"messagestore.dev/use": use}} if use else {}
    secret = {"metadata": {"name": name, **labels}, "stringData": {"accessKey": "a", "secretKey": "s"}}
    answer = server.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    assert answer.accepted, answer.body


def make_storage_secrets(server: ApiServer, namespace: str) -> None:
    """The Secrets that `launches.stream` refers to."""
    make_secret(server, namespace, "lake-credentials", "storage")
    make_secret(server, namespace, "lake-ca", "ca")
