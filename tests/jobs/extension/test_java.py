"""The Java tests, by JUnit, of the extension's parts that need no Spark session."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pyspark
import pytest
from hack.downloads import FOLDERS

from messagestore_jobs.session import jars_folder

HERE = Path(__file__).parent
TESTS = sorted(HERE.glob("dev/**/*Test.java"))
SPARK = Path(pyspark.__file__).parent / "jars"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[ElementTree.Element]]:
    """JUnit's result of each method, by class."""
    folder = tmp_path_factory.mktemp("java")
    console = next(FOLDERS["junit"]().glob("*.jar"))
    path = os.pathsep.join([str(folder), str(HERE), f"{jars_folder()}/*", f"{SPARK}/*", str(console)])
    compile_once = "-XX:TieredStopAtLevel=1"
    javac = ["javac", f"-J{compile_once}", "-Xlint:all,-processing,-classfile,-path", "-Werror", "-cp", path]
    subprocess.run([*javac, "-d", folder, *TESTS], check=True)
    java = ["java", compile_once, "-cp", path, "org.junit.platform.console.ConsoleLauncher", "execute"]
    subprocess.run(
        [*java, "--scan-class-path", folder, "--reports-dir", folder, "--details", "none"], env=plain(), check=False
    )
    cases = ElementTree.parse(folder / "TEST-junit-jupiter.xml").getroot().iter("testcase")
    by_class: dict[str, list[ElementTree.Element]] = {}
    for case in cases:
        by_class.setdefault(case.attrib["classname"].rpartition(".")[2], []).append(case)
    return by_class


def plain() -> dict[str, str]:
    """An environment without the user's Java options, and in UTF-8."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@pytest.mark.parametrize("name", [path.stem for path in TESTS])
def test_java(results: Mapping[str, list[ElementTree.Element]], name: str) -> None:
    cases = results.get(name, [])
    assert cases, f"JUnit ran nothing of {name}"
    wrong = [f"{case.attrib['name']}: {found.text}" for case in cases for found in case if "message" in found.attrib]
    assert not wrong, "\n".join(wrong)
