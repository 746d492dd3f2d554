"""With `approval.admissionPolicy`, nothing is removed that somebody with the verb `approve` has not let through."""

from itertools import count
from typing import Any

import pytest

from messagestore_operator.names import API_VERSION
from support.apiserver import Answer
from support.installed import ACCOUNT
from support.operators import eventually
from support.tenants import MERGE, RBAC, Tenants

PREVIEW, BY = "messagestore.dev/approved-preview", "messagestore.dev/approved-by"
ENFORCE = {"mode": "Enforce"}
REQUIRED = {**ENFORCE, "approval": "Required"}
_numbers = count()


@pytest.fixture(scope="module")
def values() -> tuple[str, ...]:
    return ("approval.admissionPolicy=true",)


@pytest.fixture(scope="module")
def approver(tenants: Tenants) -> str:
    """A user who may approve in the tenant's namespace; the API server applies the rules."""
    user = "auditor"
    binding = {
        "metadata": {"name": "approves"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{ACCOUNT}-approve"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    path = f"/apis/{RBAC}/v1/namespaces/{tenants.one.namespace}/rolebindings"
    assert tenants.one.server.request("POST", path, binding).accepted
    eventually(lambda: make(tenants, ENFORCE)[1].status == 403, of=tenants.operator)
    return user


def make(tenants: Tenants, spec: dict[str, Any], **annotations: str) -> tuple[str, Answer]:
    """Create a policy as the tenant."""
    name = f"policy-{next(_numbers)}"
    metadata = {"annotations": annotations} if annotations else {}
    return name, tenants.one.make("RetentionPolicy", name, {**spec, "suspend": True}, **metadata)


def made(tenants: Tenants, spec: dict[str, Any]) -> str:
    name, answer = make(tenants, spec)
    assert answer.accepted, answer.body
    return name


def annotate(tenants: Tenants, name: str, user: str = "", **annotations: Any) -> Answer:
    one = tenants.one
    body = {"metadata": {"annotations": annotations}}
    return one.server.request("PATCH", f"{one.path('RetentionPolicy')}/{name}", body, MERGE, user or one.user)


def test_an_approver_approves_under_their_own_name(tenants: Tenants, approver: str) -> None:
    name = made(tenants, REQUIRED)
    answer = annotate(tenants, name, approver, **{PREVIEW: "8c1f", BY: approver})
    assert answer.accepted, answer.body
    # The next preview, with the name as it is.
    assert annotate(tenants, name, approver, **{PREVIEW: "9d20"}).accepted


@pytest.mark.parametrize(
    "annotations", [{PREVIEW: "8c1f"}, {BY: "auditor"}, {PREVIEW: "8c1f", BY: "editor"}, {PREVIEW: "", BY: "auditor"}]
)
def test_an_incomplete_approval_or_one_under_another_name_is_refused(
    tenants: Tenants, approver: str, annotations: dict[str, str]
) -> None:
    answer = annotate(tenants, made(tenants, REQUIRED), approver, **annotations)
    assert answer.status == 422, answer.body
    assert f"sets both {PREVIEW} and {BY}, the latter to {approver}" in answer.body["message"]


def test_an_editor_approves_nothing(tenants: Tenants, approver: str) -> None:
    name, editor = made(tenants, REQUIRED), tenants.one.user
    for by in (editor, approver):
        answer = annotate(tenants, name, **{PREVIEW: "8c1f", BY: by})
        assert answer.status == 403, answer.body
        assert f"{editor} needs the verb approve on retentionpolicies" in answer.body["message"]
    assert make(tenants, REQUIRED, **{PREVIEW: "8c1f", BY: editor})[1].status == 403


def test_an_editor_does_not_change_an_approval(tenants: Tenants, approver: str) -> None:
    name = made(tenants, REQUIRED)
    assert annotate(tenants, name, approver, **{PREVIEW: "8c1f", BY: approver}).accepted
    changes: list[dict[str, str | None]] = [
        {PREVIEW: "9d20"},
        {BY: tenants.one.user},
        {BY: None},
        {PREVIEW: None, BY: None},
    ]
    assert [annotate(tenants, name, **change).status for change in changes] == [403] * 4
    assert annotate(tenants, name, approver, **{PREVIEW: None, BY: None}).accepted


@pytest.mark.parametrize("spec", [ENFORCE, {**ENFORCE, "approval": "NotRequired"}])
def test_an_editor_makes_no_policy_that_enforces_without_approval(
    tenants: Tenants, approver: str, spec: dict[str, Any]
) -> None:
    answer = make(tenants, spec)[1]
    assert answer.status == 403, answer.body
    assert "for mode: Enforce without approval: Required" in answer.body["message"]


@pytest.mark.usefixtures("approver")
@pytest.mark.parametrize(
    ("before", "change"),
    [
        (REQUIRED, {"approval": "NotRequired"}),
        (REQUIRED, {"approval": None}),
        ({"mode": "DryRun"}, {"mode": "Enforce"}),
        ({"mode": "DryRun", "approval": "Required"}, ENFORCE | {"approval": "NotRequired"}),
    ],
)
def test_an_editor_does_not_remove_the_need_for_approval(
    tenants: Tenants, before: dict[str, Any], change: dict[str, Any]
) -> None:
    assert tenants.one.change("RetentionPolicy", made(tenants, before), {"spec": change}).status == 403


@pytest.mark.usefixtures("approver")
def test_an_editor_edits_policies_that_need_approval_or_remove_nothing(tenants: Tenants) -> None:
    rules = {"spec": {"rules": [{"name": "old", "maxAge": "P2D"}]}}
    for spec in (REQUIRED, {"mode": "DryRun"}, {}):
        answer = tenants.one.change("RetentionPolicy", made(tenants, spec), rules)
        assert answer.accepted, answer.body


def test_an_approver_enforces_without_approval_and_then_an_editor_annotates(tenants: Tenants, approver: str) -> None:
    """A policy from before the rules is one, too: what leaves its spec alone passes."""
    name = made(tenants, {"mode": "DryRun"})
    path = f"{tenants.one.path('RetentionPolicy')}/{name}"
    assert tenants.one.server.request("PATCH", path, {"spec": ENFORCE}, MERGE, approver).accepted
    assert annotate(tenants, name, **{"messagestore.dev/run-requested": "now"}).accepted
    assert tenants.one.change("RetentionPolicy", name, {"spec": {"suspend": False}}).status == 403
    document = tenants.one.read("RetentionPolicy", name)
    assert document["apiVersion"] == API_VERSION
    assert tenants.one.request("PUT", path, document).accepted


def test_another_namespace_has_approvers_of_its_own(tenants: Tenants, approver: str) -> None:
    answer = tenants.other.make("RetentionPolicy", "other", REQUIRED | {"suspend": True})
    assert answer.accepted, answer.body
    path = f"{tenants.other.path('RetentionPolicy')}/other"
    body = {"metadata": {"annotations": {PREVIEW: "8c1f", BY: approver}}}
    assert tenants.other.server.request("PATCH", path, body, MERGE, approver).status == 403
