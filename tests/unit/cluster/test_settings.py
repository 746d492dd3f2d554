"""Settings: a file, then the environment, then options; an error explains what is wrong."""

from pathlib import Path

import pytest

from messagestore_operator.settings import SettingsProblemError, load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_without_anything_the_defaults_hold() -> None:
    found = load(None, {})
    assert (found.watch_namespaces, found.leader.enabled, found.spark.driver.memory) == ((), True, "1g")


def test_the_environment_beats_the_file_and_an_option_beats_both(file: Path) -> None:
    file.write_text("watchNamespaces: [a]\nworkers: 2\nspark: {image: of-the-file, version: 4.1.4}\n")
    environment = {
        "MESSAGESTORE_OPERATOR_SPARK__IMAGE": "of-the-environment",
        "MESSAGESTORE_OPERATOR_WATCH_NAMESPACES": "[b]",
        "MESSAGESTORE_CACHE": "nothing to do with it",
    }
    found = load(file, environment, {"watchNamespaces": ["c"], "workers": None})
    assert (found.spark.image, found.spark.version) == ("of-the-environment", "4.1.4")
    assert (found.watch_namespaces, found.workers) == (("c",), 2)


DIVIDED = "tenancy: {storage: {requireCredentials: false, prefixes: {'*': ['s3a://lake/{namespace}']}}}\n"
COMMON = "driver: {annotations: {role: all}}\n"


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        (DIVIDED + COMMON, True),
        (DIVIDED + COMMON + "watchNamespaces: [a]\n", False),
        (DIVIDED + "driver: {namespaceAnnotations: {billing: {role: bill}}}\n", False),
        (DIVIDED.replace("requireCredentials: false, ", "") + COMMON, False),
        (COMMON, False),
    ],
)
def test_a_cloud_identity_for_several_namespaces_with_prefixes_counts_as_shared(
    file: Path, text: str, shared: bool
) -> None:
    file.write_text(text)
    assert load(file, {}).shares_identity is shared


def test_the_operators_namespace_is_its_pods_unless_the_file_sets_another(file: Path) -> None:
    assert load(None, {"POD_NAMESPACE": "store"}).namespace == "store"
    file.write_text("namespace: elsewhere\n")
    assert load(file, {"POD_NAMESPACE": "store"}).namespace == "elsewhere"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("worker: 3\n", "worker: unknown field; did you mean workers?"),
        ("workers: 0\n", "workers: "),
        ("runs: {startDeadline: soon}\n", "runs.startDeadline: must be"),
        ("spark: {driver: {memory: lots}}\n", "spark.driver.memory: "),
        ("[1]\n", "must hold settings by their names"),
        ("a: [\n", "settings.yaml"),
    ],
)
def test_a_wrong_setting_is_named(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingsProblemError) as caught:
        load(file, {})
    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsProblemError, match=r"missing\.yaml"):
        load(tmp_path / "missing.yaml", {})


@pytest.mark.parametrize("times", ["{duration: 10}", "{renewDeadline: 20}", "{retry: 10}"])
def test_a_leader_that_could_not_renew_or_would_stop_too_late_is_refused(file: Path, times: str) -> None:
    file.write_text(f"leader: {times}")
    with pytest.raises(SettingsProblemError, match="leader: duration must be more than renewDeadline"):
        load(file, {})


def test_a_variable_sets_a_field_of_a_group_that_the_file_leaves_empty(file: Path) -> None:
    environment = {"MESSAGESTORE_OPERATOR_SPARK__IMAGE": "of-the-environment"}
    file.write_text("spark:\n")
    assert load(file, environment).spark.image == "of-the-environment"
    file.write_text("spark: all\n")
    with pytest.raises(SettingsProblemError, match="spark: must hold settings by their names"):
        load(file, environment)


def test_a_file_that_is_no_text_is_named(file: Path) -> None:
    file.write_bytes(b"workers: \xff\n")
    with pytest.raises(SettingsProblemError, match=r"settings\.yaml: .*can't decode"):
        load(file, {})
