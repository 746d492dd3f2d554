"""Tools that join manifests leave empty documents."""

from pathlib import Path

from messagestore_operator.manifests.load import load

STREAM = """\
apiVersion: messagestore.dev/v1alpha1
kind: MessageStream
metadata: {name: orders}
spec:
  table: {uri: file:///tmp/orders}
  source: {files: {uri: file:///tmp/landing}}
  trigger: {interval: PT5M}
"""


def test_a_document_with_nothing_in_it_is_passed_over(tmp_path: Path) -> None:
    manifest = tmp_path / "orders.yaml"
    manifest.write_text(f"---\n{STREAM}---\n# nothing here\n---\n")
    found = load([str(manifest)])
    assert not found.problems
    assert [resource.metadata.name for resource in found.resources] == ["orders"]
