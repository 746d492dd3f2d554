"""Objects of any kind on the API server, as a chart renders them."""

from typing import Any

from support.apiserver import Answer, ApiServer

Document = dict[str, Any]


def collection(apiserver: ApiServer, document: Document) -> str:
    """Where the API server has objects like this one; raises LookupError when it knows no such kind."""
    version = document["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    served = apiserver.request("GET", root).body.get("resources", [])
    kinds = [one for one in served if one["kind"] == document["kind"] and "/" not in one["name"]]
    if not kinds:
        raise LookupError(f"{version} {document['kind']} is not served")
    place = f"namespaces/{document['metadata']['namespace']}/" if kinds[0]["namespaced"] else ""
    return f"{root}/{place}{kinds[0]['name']}"


def create(apiserver: ApiServer, document: Document) -> Answer:
    """Create an object without keeping it; a field that the server doesn't know is an error."""
    return apiserver.request("POST", f"{collection(apiserver, document)}?dryRun=All&fieldValidation=Strict", document)
