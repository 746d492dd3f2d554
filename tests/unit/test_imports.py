"""The operator's image has no Spark and no JVM, and a deletion needs none: their code must not import them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_operator.api import MessageStream
from messagestore_operator.api.kinds import parse_resource
from messagestore_operator.names import API_VERSION
from messagestore_operator.translate.ingest import ingest_document
from support.ended import end_run
from support.stores import make_store, message

REPOSITORY = Path(__file__).parents[2]
ONLY_IN_THE_JOBS_IMAGE = ("delta", "deltalake", "numpy", "py4j", "pyarrow", "pyspark")
# Local runs are the jobs themselves, in one process, init and page read files; the rest runs in the operator's pod.
LOCAL_RUNS = (
    "messagestore_operator.local",
    "messagestore_operator.page",
    "messagestore_operator.propose",
    "messagestore_operator.cli.console",
)

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
from {module} import main
try:
    code = main()
except SystemExit as end:
    code = end.code
print(*sorted({{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)), file=sys.stderr)
sys.exit(code)
"""
COMMAND, DRIVER = (
    LOADED.format(module="messagestore_operator.__main__"),
    LOADED.format(module="messagestore_jobs.driver.main"),
)
PLUGIN = LOADED.format(module="messagestore_operator.plugin.__main__")
TYPER = {"annotated_doc", "shellingham", "typer"}
RICH = {"attr", "linkify_it", "markdown_it", "mdurl", "pygments", "rich"}
MODELS = {"annotated_types", "isodate", "pydantic", "pydantic_core", "ruamel"}
TABLES = {"_cython_3_3_0", "cython_runtime", "annotated_types", "arro3", "dateutil", "deltalake", "numpy", "pyarrow"}
TABLES |= {"pydantic", "pydantic_core"}
TYPING = {"_sysconfigdata__linux_x86_64-linux-gnu", "typing_extensions", "typing_inspection"}


@pytest.mark.parametrize(
    ("arguments", "libraries"),
    [
        (["--version"], set()),
        (["--help"], TYPER | RICH),
        (["validate", "-f", "examples/retries"], TYPER | MODELS | TYPING),
        (["get", "file:///nowhere"], TYPER | TABLES | TYPING),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_loads_only_the_libraries_that_it_needs(arguments: list[str], libraries: set[str]) -> None:
    assert _loaded(COMMAND, *arguments) <= libraries


@pytest.mark.parametrize(
    ("arguments", "libraries"),
    [
        (["--version"], set()),
        (["--help"], TYPER),
        (["status"], TYPER | {"annotated_types", "pydantic_core", "pydantic"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_plugin_of_kubectl_starts_without_models_and_pictures(arguments: list[str], libraries: set[str]) -> None:
    """Of 0.3 s these would take most. Typer itself checks a command's arguments by pydantic."""
    assert _loaded(PLUGIN, *arguments, PATH="/nowhere") <= libraries | TYPING


def test_a_run_with_nothing_new_loads_no_spark(tmp_path: Path) -> None:
    table, landing = make_store(tmp_path / "store", [message(1)]), f"file://{tmp_path}/landing"
    (tmp_path / "landing").mkdir()
    source, trigger = {"files": {"uri": landing}}, {"manual": {}}
    spec = {"table": {"uri": table.uri}, "source": source, "trigger": trigger}
    document = {"apiVersion": API_VERSION, "kind": "MessageStream", "metadata": {"name": "orders"}, "spec": spec}
    (tmp_path / "stream.json").write_text(json.dumps(document))
    stream = parse_resource(document)
    assert isinstance(stream, MessageStream)
    end_run(ingest_document(stream, "orders-1", None))
    loaded = _loaded(COMMAND, "run", "-f", f"{tmp_path}/stream.json", "-o", "json")
    assert loaded <= TYPER | MODELS | TABLES | TYPING


def test_a_driver_with_nothing_new_loads_no_spark(tmp_path: Path) -> None:
    table, landing = make_store(tmp_path / "store", [message(1)]), f"file://{tmp_path}/landing"
    (tmp_path / "landing").mkdir()
    resource = Resource(kind="MessageStream", namespace="default", name="orders")
    task = IngestTask(source_id="landing", source=FilesSource(uri=landing))
    document = RunDocument(run="orders-1", resource=resource, table=table, task=task)
    (tmp_path / "run.json").write_text(document.model_dump_json(by_alias=True))
    end_run(document)
    files = {"RUN_DOCUMENT": f"{tmp_path}/run.json", "TERMINATION_LOG": f"{tmp_path}/log"}
    loaded = _loaded(DRIVER, **{f"MESSAGESTORE_{name}": path for name, path in files.items()})
    assert loaded <= TABLES | TYPING


def _loaded(code: str, *arguments: str, **environment: str) -> set[str]:
    """The libraries that a process has loaded at its end, besides Python's and ours."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    # Two of these processes look for what is not there.
    assert done.returncode in (0, 1), done.stderr
    loaded = done.stderr.splitlines()[-1].split()
    return {name for name in loaded if not name.startswith(("__", "messagestore"))}
