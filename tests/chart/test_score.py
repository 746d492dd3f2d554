"""What kube-score finds in the chart's objects."""

import json
import subprocess
from pathlib import Path

import pytest

from support.helm import KUBE_VERSION, program, template

CRITICAL = 1
WANTED = {
    "A CPU limit throttles a process that others would leave the CPU to": "CPU limit is not set",
    "The pods of runs are the operator's": "The NetworkPolicys selector doesn't match any pods",
    "Images have versions, and nodes start pods while a registry is away": "ImagePullPolicy is not set to Always",
}
"""What is critical for kube-score, by the reason why the chart has it so."""
OF_TESTS = {"`helm test` lasts minutes, and opens no port": "The pod does not have a matching NetworkPolicy"}
"""The same, of pods that are not a Deployment's."""


@pytest.mark.parametrize("values", ["default", "namespaces", "least"])
def test_kube_score_finds_only_the_accepted_problems(values: str, tmp_path: Path) -> None:
    rendered = tmp_path / "chart.yaml"
    more = "networkPolicy.enabled=true,crds.enabled=false,test.uri=s3a://a,test.storage.credentialsSecretRef.name=a"
    rendered.write_text(template("--values", Path(__file__).parent / "values" / f"{values}.yaml", "--set", more))
    command = [program("kube-score"), "score", "--output-format=json", "--kubernetes-version", f"v{KUBE_VERSION[:4]}"]
    done = subprocess.run([*command, rendered], capture_output=True, text=True, check=False)
    objects = json.loads(done.stdout)
    assert {one["type_meta"]["kind"] for one in objects} >= {"Deployment", "NetworkPolicy", "Pod"}
    critical = {
        (one["type_meta"]["kind"] == "Pod", comment["summary"])
        for one in objects
        for check in one["checks"]
        if not check["skipped"] and check["grade"] == CRITICAL
        for comment in check["comments"] or ()
    }
    wanted = {(is_test, said) for is_test in (False, True) for said in WANTED.values()}
    assert critical <= wanted | {(True, said) for said in OF_TESTS.values()}
