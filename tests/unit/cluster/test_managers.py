"""managedFields tell who wrote a resource."""

from messagestore_operator.cluster.resources import managers

APPROVED = "messagestore.dev/approved-preview"
SPEC = {"manager": "argocd", "operation": "Apply", "time": "2026-04-01T00:00:00Z", "fieldsV1": {"f:spec": {}}}


def test_the_last_writer_of_each_part_is_named() -> None:
    annotated = {"f:metadata": {"f:annotations": {".": {}, f"f:{APPROVED}": {}, "f:other.dev/x": {}}}}
    fields = [
        {**SPEC, "manager": "kubectl-edit", "time": "2026-04-03T00:00:00Z", "fieldsV1": {"f:spec": {}, **annotated}},
        SPEC,
        {**SPEC, "manager": "operator", "time": "2026-04-05T00:00:00Z", "subresource": "status"},
        {**SPEC, "manager": "kubectl-annotate", "time": "2026-04-04T00:00:00Z", "fieldsV1": annotated},
    ]
    assert managers(fields) == {"spec": "kubectl-edit", APPROVED: "kubectl-annotate"}


def test_malformed_managed_fields_name_no_writer() -> None:
    assert managers(None) == {}
    assert managers(["x", {}, {"fieldsV1": 7, "manager": "x"}, {"fieldsV1": {"f:spec": {}}}]) == {}
    assert managers([{**SPEC, "fieldsV1": {"f:metadata": {"f:annotations": []}}}]) == {}
