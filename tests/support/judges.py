"""The two checks of a resource, by the models and by the API server."""

from functools import cache
from typing import Any

from pydantic import ValidationError

from messagestore_operator.api import parse_resource
from messagestore_operator.api.crd import custom_resource_definition
from messagestore_operator.names import API_VERSION, NAMES
from support.apiserver import Answer, ApiServer

Document = dict[str, Any]


@cache
def schema_of(kind: str) -> Document:
    """The schema with which the API server checks resources of a kind."""
    schema: Document = custom_resource_definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def complaints_of_model(document: Document) -> list[str]:
    """The problems that the models find; empty if they accept the document."""
    try:
        parse_resource(document)
    except ValidationError as error:
        return [f"{line['loc']}: {line['msg']}" for line in error.errors()]
    return []


def url(kind: str, name: str = "", query: str = "") -> str:
    """The path of a kind's resources on the API server."""
    path = f"/apis/{API_VERSION}/namespaces/default/{NAMES[kind].plural}"
    return f"{path}{'/' if name else ''}{name}?fieldValidation=Strict{query}"


def create(apiserver: ApiServer, document: Document, *, dry_run: bool = True) -> Answer:
    """Create a resource; a dry run does not keep it."""
    return apiserver.request("POST", url(document["kind"], query="&dryRun=All" if dry_run else ""), document)


def update(apiserver: ApiServer, document: Document, *, part: str = "", dry_run: bool = True) -> Answer:
    """Replace a resource, or its status."""
    name = document["metadata"]["name"] + part
    return apiserver.request("PUT", url(document["kind"], name, "&dryRun=All" if dry_run else ""), document)


def delete(apiserver: ApiServer, document: Document) -> None:
    """Delete a resource."""
    answer = apiserver.request("DELETE", url(document["kind"], document["metadata"]["name"]))
    assert answer.accepted, answer.body
