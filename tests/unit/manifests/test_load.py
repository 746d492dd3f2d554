import io
import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from messagestore_operator.manifests.load import load
from support.resources import deleting_policy, redrive, replay_to_files, stream_from_files

STREAM = """\
apiVersion: messagestore.dev/v1alpha1
kind: MessageStream
metadata: {name: small}
spec:
  table: {uri: s3a://lake/small}
  source: {files: {uri: s3a://landing/small}}
  trigger: {manual: {}}
"""


def _write(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def _yaml(document: dict) -> str:
    stream = io.StringIO()
    YAML().dump(document, stream)
    return stream.getvalue()


def _problems(folder: Path, text: str) -> list[str]:
    return [str(problem).replace(f"{folder}/", "") for problem in load([_write(folder, "a.yaml", text)]).problems]


def test_resources_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    first = _write(tmp_path, "z.yaml", f"{_yaml(replay_to_files())}---\n{STREAM}")
    second = _write(tmp_path, "a.yaml", _yaml(deleting_policy()))
    result = load([first, second])
    assert result.problems == ()
    assert [resource.metadata.name for resource in result.resources] == ["invoices-again", "small", "invoices-30-days"]


def test_a_folder_is_its_manifests_by_name(tmp_path: Path) -> None:
    _write(tmp_path, "b.yml", STREAM.replace("small", "b"))
    _write(tmp_path, "a.yaml", STREAM.replace("small", "a"))
    _write(tmp_path, "notes.txt", "not a manifest")
    assert [resource.metadata.name for resource in load([str(tmp_path)]).resources] == ["a", "b"]


def test_a_file_that_is_named_beside_its_folder_is_read_once(tmp_path: Path) -> None:
    file = _write(tmp_path, "a.yaml", STREAM)
    result = load([str(tmp_path), file, f"{tmp_path}/./a.yaml"])
    assert ([resource.metadata.name for resource in result.resources], result.problems) == (["small"], ())


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", _input(STREAM.encode("utf-8-sig")))
    assert len(load(["-"]).resources) == 1
    monkeypatch.setattr("sys.stdin", _input(b"\xff"))
    assert [str(problem) for problem in load(["-"]).problems] == ["<stdin>:1: is not UTF-8"]


def test_a_path_that_nobody_can_look_at_is_a_problem() -> None:
    (problem,) = load(["a" * 300]).problems
    assert problem.message == "can't be read: File name too long"


def _input(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), "utf-8")


def test_a_list_is_its_items(tmp_path: Path) -> None:
    text = _yaml({"apiVersion": "v1", "kind": "List", "items": [stream_from_files(), deleting_policy()]})
    assert len(load([_write(tmp_path, "a.yaml", text)]).resources) == 2


def test_secrets_are_kept_and_never_shown(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: aGVsbG8=}\nstringData: {b: hidden}\n"
    (secret,) = load([_write(tmp_path, "a.yaml", text)]).secrets
    assert dict(secret.data) == {"a": b"hello", "b": b"hidden"}
    assert "hidden" not in repr(secret)


def test_every_problem_has_its_line_and_its_path(tmp_path: Path) -> None:
    text = """\
apiVersion: messagestore.dev/v1alpha1
kind: MessageStream
metadata: {name: orders}
spec:
  table:
    uri: /data/orders
    deletionPolicy: delete
  source:
    files:
      url: s3a://landing/orders
      maxFilesPerBatch: "10"
  trigger:
    interval: P1M
    manual: {}
  filter:
    where: "reflect('java.lang.System', 'exit')"
  suspended: true
"""
    problems = _problems(tmp_path, text)
    places = sorted(problem.partition(": ")[0] for problem in problems)
    assert places == sorted(f"a.yaml:{line}" for line in (6, 7, 9, 10, 11, 12, 13, 16, 17))
    assert "a.yaml:7: spec.table.deletionPolicy: must be one of Retain, Delete; did you mean Delete?" in problems
    assert "a.yaml:9: spec.source.files.uri: is required" in problems
    assert "a.yaml:10: spec.source.files.url: unknown field; did you mean uri?" in problems
    assert "a.yaml:11: spec.source.files.maxFilesPerBatch: must be a whole number" in problems
    assert "a.yaml:17: spec.suspended: unknown field; did you mean suspend?" in problems


def test_a_file_that_is_no_yaml_does_not_hide_the_problems_of_others(tmp_path: Path) -> None:
    broken = _write(tmp_path, "broken.yaml", "a: [1,\nb: 2\n")
    wrong = _write(tmp_path, "wrong.yaml", STREAM.replace("manual: {}", ""))
    missing = str(tmp_path / "missing.yaml")
    messages = [str(problem) for problem in load([broken, wrong, missing]).problems]
    assert len(messages) == 3
    assert "is not valid YAML" in messages[0]
    assert "give exactly one of" in messages[1]
    assert "can't be read" in messages[2]


def test_a_key_twice_is_a_problem_at_the_second(tmp_path: Path) -> None:
    assert _problems(tmp_path, f"{STREAM}  suspend: true\n  suspend: false\n") == [
        "a.yaml:9: spec.suspend: is given twice"
    ]


def test_anchors_and_merges_are_followed(tmp_path: Path) -> None:
    text = STREAM.replace("{uri: s3a://landing/small}", "{<<: &f {uri: s3a://landing/small}, format: JSON}")
    result = load([_write(tmp_path, "a.yaml", text)])
    assert result.problems == ()
    assert result.resources[0].to_dict()["spec"]["source"]["files"]["format"] == "JSON"


def test_a_manifest_whose_anchors_expand_to_billions_of_items_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert any("too large" in problem for problem in _problems(tmp_path, "\n".join(lines)))


def test_a_manifest_whose_merges_expand_to_billions_of_items_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: y}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 10)]
    assert any("too large" in problem for problem in _problems(tmp_path, "\n".join(lines)))


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    assert any("nested too deeply" in problem for problem in _problems(tmp_path, "[" * 5000 + "]" * 5000))


def test_a_time_needs_no_quotes(tmp_path: Path) -> None:
    text = _yaml(replay_to_files()).replace("'2026-03-01T06:30:00Z'", "2026-03-01T06:30:00Z")
    assert _problems(tmp_path, text) == []


def test_the_same_resource_twice_is_a_problem(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path, f"{STREAM}---\n{STREAM}")
    assert problem.startswith("a.yaml:11: metadata.name: MessageStream small is in ")
    one = json.dumps(YAML(typ="safe").load(STREAM))
    (problem,) = _problems(tmp_path, f'{{"apiVersion": "v1", "kind": "List", "items": [{one}, {one}]}}')
    assert problem.startswith("a.yaml:1: items[1].metadata.name: MessageStream small is in ")


def test_other_kinds_are_passed_over_with_a_word(tmp_path: Path) -> None:
    result = load(
        [_write(tmp_path, "a.yaml", f"{STREAM}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\n")]
    )
    assert result.problems == ()
    assert [warning.message for warning in result.warnings] == ["v1 ConfigMap is skipped"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STREAM.replace("MessageStream", "MessageStreams"), "did you mean MessageStream?"),
        (STREAM.replace("v1alpha1", "v1"), "must be messagestore.dev/v1alpha1"),
        (STREAM.replace("kind: MessageStream", ""), "kind: is required"),
        ("just text", "must be a resource"),
        ("", "the files have no resource"),
    ],
)
def test_a_document_that_is_almost_a_resource_is_a_problem(tmp_path: Path, text: str, message: str) -> None:
    (problem,) = _problems(tmp_path, text)
    assert message in problem


def test_files_without_a_resource_are_named(tmp_path: Path) -> None:
    files = [_write(tmp_path, name, "") for name in ("a.yaml", "b.yaml")]
    (problem,) = load(files).problems
    assert str(problem) == f"{', '.join(files)}:1: the files have no resource"


def test_a_predicate_on_dead_letters_knows_their_columns(tmp_path: Path) -> None:
    document = redrive()
    document["spec"]["select"]["where"] = "reason = 'MissingField'"
    assert _problems(tmp_path, _yaml(document)) == []
    document["spec"]["select"]["where"] = "causation_id = 'x'"
    (problem,) = _problems(tmp_path, _yaml(document))
    assert "spec.select.where" in problem


def test_a_reference_to_nothing_is_for_the_caller_to_judge(tmp_path: Path) -> None:
    result = load([_write(tmp_path, "a.yaml", f"{_yaml(deleting_policy())}---\n{_yaml(replay_to_files())}")])
    assert result.problems == ()
    assert [problem.path for problem in result.unresolved] == ["spec.streamRefs[0].name", "spec.streamRef.name"]


def test_a_stream_with_a_problem_of_its_own_is_not_missing_too(tmp_path: Path) -> None:
    text = f"{_yaml(deleting_policy())}---\n{_yaml(replay_to_files())}"
    name = replay_to_files()["spec"]["streamRef"]["name"]
    wrong = STREAM.replace("name: small", f"name: {name}").replace(
        "uri: s3a://landing/small", "url: s3a://landing/small"
    )
    result = load([_write(tmp_path, "a.yaml", f"{text}---\n{wrong}")])
    assert result.problems
    assert name not in " ".join(problem.message for problem in result.unresolved)


def test_two_streams_in_one_folder_are_noticed(tmp_path: Path) -> None:
    other = STREAM.replace("name: small", "name: other")
    (problem,) = load([_write(tmp_path, "a.yaml", f"{STREAM}---\n{other}")]).unresolved
    assert problem.message == "is the folder of MessageStream small too"


def test_folders_that_overlap_are_a_problem_of_the_later_resource(tmp_path: Path) -> None:
    policy = deleting_policy()
    policy["spec"] |= {"streamRefs": [{"name": "small"}], "archive": {"uri": "s3a://landing/small/archive"}}
    policy["spec"].pop("streamSelector", None)
    (problem,) = _problems(tmp_path, f"{STREAM}---\n{_yaml(policy)}")
    assert "spec.archive.uri: must not contain" in problem


def test_a_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    (problem,) = load([str(tmp_path / "a.yaml")]).problems
    assert problem.message == "is not UTF-8"
