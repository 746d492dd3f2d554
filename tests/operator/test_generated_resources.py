"""Random resources, generated from the schemas, valid or not: CRDs and models judge them alike."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from messagestore_operator.api import KINDS
from support.apiserver import ApiServer
from support.judges import complaints_of_model, create, schema_of
from support.long import few
from support.resources import all_resources, resource

# Valid for both, so that most generated resources pass the schema and reach the rules.
_CRONS = ("0 3 * * *", "*/5 * * * 1-5")
_TIME_ZONES = ("UTC", "Asia/Tokyo")
_BY_NAME = {"cron": _CRONS, "timeZone": _TIME_ZONES}


@st.composite
def _values(draw: DrawFn, schema: dict[str, Any], name: str) -> Any:
    if name in _BY_NAME:
        return draw(st.sampled_from(_BY_NAME[name]))
    if schema.get("x-kubernetes-int-or-string"):
        return draw(st.one_of(st.integers(1, 10**6), st.from_regex(f"{schema['pattern'][:-1]}\\Z"), st.just("1.5.0Gi")))
    match schema["type"]:
        case "object":
            return draw(_objects(schema))
        case "array":
            return draw(st.lists(_values(schema["items"], name), max_size=3))
        case "integer":
            return draw(st.integers(schema.get("minimum", 0), min(schema.get("maximum", 1000), 1000)))
        case "boolean":
            return draw(st.booleans())
    return draw(_texts(schema))


def _texts(schema: dict[str, Any]) -> SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "pattern" not in schema:
        return st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
    pattern = schema["pattern"]
    # Python's $ also matches before a line break at the end, the API server's doesn't.
    exact = f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern
    return st.from_regex(exact).filter(lambda text: len(text) <= schema["maxLength"])


@st.composite
def _objects(draw: DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    if "properties" not in schema:
        if "additionalProperties" not in schema:
            return {}
        values = _values(schema["additionalProperties"], "")
        return draw(st.dictionaries(st.sampled_from(["a", "b", "spark.speculation"]), values, max_size=2))
    required = set(schema.get("required", []))
    optional = sorted(schema["properties"].keys() - required)
    # Few at a time: rules about mutually exclusive fields would refuse nearly everything else.
    chosen = draw(st.sets(st.sampled_from(optional), max_size=3)) if optional else set()
    return {
        name: draw(_values(node, name))
        for name, node in schema["properties"].items()
        if name in required or name in chosen
    }


@st.composite
def _specs(draw: DrawFn, kind: str) -> dict[str, Any]:
    """A random spec, or a valid one with some random fields."""
    schema = schema_of(kind)["properties"]["spec"]
    if draw(st.booleans()):
        return draw(_objects(schema))
    valid = draw(st.sampled_from([document["spec"] for document in all_resources() if document["kind"] == kind]))
    changed = draw(st.sets(st.sampled_from(sorted(schema["properties"])), min_size=1, max_size=2))
    return {**valid, **{name: draw(_values(schema["properties"][name], name)) for name in sorted(changed)}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("examples", few([150, 40], 40))
def test_api_server_and_models_agree_on_generated_resources(apiserver: ApiServer, kind: str, examples: int) -> None:
    verdicts = {True: 0, False: 0}

    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
    )
    @given(_specs(kind))
    def compare(spec: dict[str, Any]) -> None:
        document = resource(kind, "generated", spec)
        complaints = complaints_of_model(document)
        answer = create(apiserver, document)
        assert answer.accepted == (not complaints), (complaints, answer.body.get("message"))
        verdicts[answer.accepted] += 1

    compare()
    assert all(verdicts.values()), verdicts
