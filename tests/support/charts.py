"""Objects of any kind on the API server, as a chart renders them."""

from typing import Any

from support.apiserver import Answer, ApiServer

Document = dict[str, Any]


def collection(apiserver: ApiServer, document: Document) -> str:
    """The path of the collection of an object; raises LookupError if the API server doesn't know its kind."""
    version = document["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    served = apiserver.request("GET", root).body.get("resources", [])
    kinds = [one for one in served if one["kind"] == document["kind"] and "/" not in one["name"]]
    if not kinds:
        raise LookupError(f"{version} {document['kind']} is not served")
    place = f"namespaces/{document['metadata']['namespace']}/" if kinds[0]["namespaced"] else ""
    return f"{root}/{place}{kinds[0]['name']}"


def create(apiserver: ApiServer, document: Document) -> Answer:
    """Create an object as a dry run; unknown fields are errors."""
    return apiserver.request("POST", f"{collection(apiserver, document)}?dryRun=All&fieldValidation=Strict", document)
