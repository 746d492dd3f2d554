"""The operator's image has no Spark and no JVM, and a deletion needs none: their code must not import them."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ONLY_IN_THE_JOBS_IMAGE = ("delta", "deltalake", "numpy", "py4j", "pyarrow", "pyspark")
# Local runs are the jobs themselves, in one process; the rest of the package runs in the operator's pod.
LOCAL_RUNS = ("messagestore_operator.local", "messagestore_operator.cli.console")

IMPORT_ALL = f"""
import importlib, pkgutil, sys
for name in {ONLY_IN_THE_JOBS_IMAGE}:
    sys.modules[name] = None
import messagestore_operator
for module in pkgutil.walk_packages(messagestore_operator.__path__, "messagestore_operator."):
    if not module.name.startswith({LOCAL_RUNS}):
        importlib.import_module(module.name)
        print(module.name)
"""


def test_the_operator_imports_without_what_only_the_jobs_need() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "messagestore_operator.cli.main" in done.stdout


def test_a_deletion_imports_no_spark_which_would_take_as_long_as_all_else() -> None:
    modules = "messagestore_jobs.driver.main, messagestore_jobs.delete, messagestore_jobs.lock"
    code = f"import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None; import {modules}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_image_installs_a_part_of_the_one_lock() -> None:
    whole = _pins("requirements.lock")

    for part in ("operator/requirements.lock", "spark_images/requirements.lock"):
        assert _pins(part).items() <= whole.items(), f"{part}: run make lock"


def test_neither_image_installs_what_only_the_other_needs() -> None:
    operator, jobs = _pins("operator/requirements.lock"), _pins("spark_images/requirements.lock")

    assert not {"pyspark", "deltalake", "pyarrow", "numpy"} & operator.keys()
    assert not {"kopf", "kubernetes", "typer"} & jobs.keys()


def _pins(lock: str) -> dict[str, str]:
    """Each requirement of a lock file with its hashes, unchanged."""
    pins: dict[str, str] = {}
    name = ""
    for line in (REPOSITORY / lock).read_text().splitlines():
        if not line.startswith(" "):
            name = line.split("==")[0]
        pins[name] = pins.get(name, "") + line
    return pins


LOADED = """
import sys
from messagestore_operator.__main__ import main
try:
    main()
except SystemExit:
    pass
print(*sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)), file=sys.stderr)
"""
TYPER = {"annotated_doc", "attr", "linkify_it", "markdown_it", "mdurl", "pygments", "rich", "shellingham", "typer"}
MODELS = {"annotated_types", "croniter", "dateutil", "isodate", "pydantic", "pydantic_core", "ruamel"}
TABLES = {"_cython_3_3_0", "cython_runtime", "annotated_types", "arro3", "dateutil", "deltalake", "numpy", "pyarrow"}
TABLES |= {"pydantic", "pydantic_core"}
TYPING = {"_sysconfigdata__linux_x86_64-linux-gnu", "typing_extensions", "typing_inspection"}


@pytest.mark.parametrize(
    ("arguments", "libraries"),
    [
        (["--version"], set()),
        (["--help"], TYPER),
        (["validate", "-f", "examples/retries"], TYPER | MODELS | TYPING),
        (["get", "file:///nowhere"], TYPER | TABLES | TYPING),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_loads_only_the_libraries_that_it_needs(arguments: list[str], libraries: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)

    loaded = set(done.stderr.splitlines()[-1].split())
    assert {name for name in loaded if not name.startswith(("__", "messagestore"))} <= libraries
