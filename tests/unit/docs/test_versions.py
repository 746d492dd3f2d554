"""One table has each version that the documentation names, and matches the chart, the locks and the tests."""

import re
from pathlib import Path
from xml.etree import ElementTree

from hack.images import project_version
from hack.programs import KUBERNETES_VERSION, SPARK_OPERATOR_VERSION
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).parents[3]
INSTALL = (REPOSITORY / "docs/install.md").read_text(encoding="utf-8")
CHART = YAML(typ="safe").load(REPOSITORY / "charts/message-store-operator/Chart.yaml")
MAVEN = "{http://maven.apache.org/POM/4.0.0}"


def _row(program: str) -> list[str]:
    """A program's row in the table of versions: the supported versions, and the tested one."""
    line = next(line for line in INSTALL.splitlines() if line.startswith(f"| {program}"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def _locked(package: str) -> str:
    lock = (REPOSITORY / "spark_images/requirements.lock").read_text()
    return re.findall(rf"^{package}==(\S+)", lock, re.M)[0]


def _jars(group: str) -> set[str]:
    dependencies = ElementTree.parse(REPOSITORY / "spark_images/jars/pom.xml").getroot().iter(f"{MAVEN}dependency")
    return {str(one.findtext(f"{MAVEN}version")) for one in dependencies if one.findtext(f"{MAVEN}groupId") == group}


def test_kubernetes_is_as_old_as_the_chart_allows() -> None:
    supported, tested = _row("Kubernetes")
    assert CHART["kubeVersion"] == f">={supported.split()[0]}.0-0"
    assert f"v{tested}" == KUBERNETES_VERSION


def test_the_spark_operator_is_that_of_the_tests_in_a_cluster() -> None:
    supported, tested = _row("Spark operator")
    assert (f"v{tested}", supported) == (SPARK_OPERATOR_VERSION, tested.rpartition(".")[0])


def test_spark_and_delta_lake_are_those_of_the_image() -> None:
    assert _row("Spark, ") == ["", _locked("pyspark")]
    (jars,) = _jars("io.delta")
    assert _row("Delta Lake, ") == ["", f"jars {jars}, Python {_locked('delta-spark')}"]


def test_images_and_wheel_have_the_version_of_the_chart() -> None:
    assert CHART["version"] == CHART["appVersion"] == project_version()
    texts = [INSTALL, (REPOSITORY / "docs/reading.md").read_text(encoding="utf-8")]
    named = [one for text in texts for one in re.findall(r"(?:(?:operator|spark):|operator-)(\d+\.\d+\.\d+)", text)]
    assert named
    assert set(named) == {project_version()}


def test_no_other_page_says_which_version_is_needed() -> None:
    """`performance-notes.md` may name the versions that it measured."""
    pages = {
        page for page in REPOSITORY.glob("docs/**/*.md") if page.name not in {"install.md", "performance-notes.md"}
    }
    told = re.compile(r"(?:Spark operator\S*|Delta(?: Lake)?) \(?v?\d+\.[\dx]")
    assert [(page.name, found[0]) for page in sorted(pages) if (found := told.search(page.read_text()))] == []
