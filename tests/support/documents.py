"""The shell commands of the documentation: which of them tests run, and why not the others."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from support.waiting import scaled

REPOSITORY = Path(__file__).parents[2]
SHELL = {"sh", "bash", "shell", "console"}
# A command behind a prompt; a backslash continues it in the next line.
PROMPTED = re.compile(r"^\$ ((?:.*\\\n)*.*)\n?", re.M)

_END = "-- end of a block --"

IMAGES = "makes images, and a cluster"
LONG = "starts the tests or the demo, which are long"
PAIRS = "goes between programs; tests/jobs/examples/test_request_reply.py runs them all"

# The headings of each page whose commands tests/jobs/documents runs, in this order.
RUN: dict[str, tuple[str, ...]] = {
    "docs/tutorial.md": (
        "Write messages",
        "Store them",
        "Let some leave",
        "Send the rest again",
        "Take the manifests to a cluster",
    ),
    "docs/patterns/claim-check.md": ("Claim check",),
    "docs/patterns/consumer-groups.md": ("Another size",),
    "docs/patterns/dead-letter-and-redrive.md": ("Dead letter and redrive",),
    "docs/patterns/event-sourced-entity.md": ("Event-sourced entity with expected version",),
    "examples/README.md": ("Examples",),
}
# The headings with names of the reader's own: tests/jobs/documents runs their commands with names of its own.
RUN_WITH_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "docs/reading.md": ("From the command line",),
    "docs/local-runs.md": ("Run a store on your machine",),
    "docs/recovery.md": ("Accept what happened",),
}
# The headings of pages whose commands tests/jobs/kafka runs with a broker of its own, in this order.
RUN_ON_BROKER: dict[str, tuple[str, ...]] = {
    "docs/howto/lost-topic.md": ("Before it is lost", "Look first", "Put it back", "Go on"),
}
# The pages and headings whose commands tests/operator runs on an API server, in this order.
RUN_ON_API_SERVER: tuple[tuple[str, str], ...] = (
    ("docs/install.md", "Install the chart"),
    ("docs/security.md", "Secrets"),
    ("docs/gitops.md", "GitOps"),
    ("docs/retention.md", "Approval"),
    ("docs/runbooks.md", "MessageStoreStreamStalled"),
    ("docs/runbooks.md", "MessageStoreNoSuccessfulRun"),
    ("docs/runbooks.md", "MessageStoreLagGrowing"),
    ("docs/runbooks.md", "MessageStoreRecordsLost"),
    ("docs/runbooks.md", "MessageStoreDeadLetterSpike"),
    ("docs/runbooks.md", "MessageStorePurgeFailed"),
    ("docs/runbooks.md", "MessageStoreApprovalWaiting"),
    ("docs/runbooks.md", "MessageStoreReplayFailing"),
    ("docs/runbooks.md", "MessageStoreIntegrityBroken"),
    ("docs/runbooks.md", "MessageStoreTableLeaseStuck"),
    ("docs/runbooks.md", "MessageStoreOperatorHasNoLeader"),
    ("docs/gitops.md", "Argo CD"),
    ("docs/operator.md", "Pauses and windows"),
    ("docs/security.md", "Metrics"),
    ("docs/install.md", "Serve chosen namespaces"),
    ("docs/install.md", "Remove everything"),
)
# The headings whose commands tests/operator/test_plugin.py runs, in this order.
RUN_BY_PLUGIN: dict[str, tuple[str, ...]] = {
    "docs/operate.md": (
        "Find what fails",
        "Send dead letters again",
        "Approve a purge",
        "Pause and slow a replay",
        "Ask somebody for help",
    ),
}
# The headings whose commands tests/e2e runs in its cluster.
RUN_IN_CLUSTER: dict[str, tuple[str, ...]] = {
    "docs/tutorial.md": ("Make one", "Give it messages and credentials", "Store, purge, replay"),
}
# Why the commands of other headings are not run, by page and heading.
NOT_RUN: dict[str, dict[str, str]] = {
    "README.md": {"Try it": LONG, "Run it on Kubernetes": IMAGES},
    "docs/cluster.md": {"A cluster to try and test with": IMAGES, "By hand": "needs the cluster, and only looks at it"},
    "docs/install.md": {
        "Get the images": IMAGES,
        "Test the installation": "needs the reader's own bucket; tests/e2e/test_releases.py runs the test",
    },
    "docs/local-runs.md": {"Try without storing": "is what tests/jobs/cli/test_dry_run.py does"},
    "docs/kafka.md": {
        "Consumer groups": "needs the reader's own brokers; tests/jobs/kafka/test_offsets_command.py runs the command"
    },
    "docs/network.md": {"Private CAs": "needs the reader's own authority"},
    "docs/consuming.md": {"From the command line": "needs the reader's own consumers"},
    "docs/reading.md": {"A page to look at": "needs the reader's own stores; tests/jobs/cli/test_page.py writes pages"},
    "docs/howto/webhooks.md": {
        "Receive": "starts a server; tests/jobs/examples/test_webhooks_in.py does so",
        "Store": "is run by tests/jobs/examples/test_webhooks_in.py",
    },
    "docs/operate.md": {
        "Install the plugin": "installs a command for the reader; make did so before any test",
        "Read a store": "needs pods that run; tests/e2e/test_reading.py reads one",
    },
    "docs/replay.md": {"To an HTTP endpoint": "needs the reader's own endpoint and token"},
    "docs/patterns/request-reply.md": {"Request and reply": PAIRS},
    "docs/tutorial.md": {
        "Set up": "is what make did before any test",
        "Clean up": "deletes the cluster, which tests share",
    },
}
FOLDERS = ("/tmp/messagestore-demo", "/tmp/messagestore-tutorial")
"""The folders of the pages' data."""
# Their blocks are usage, generated by typer.
USAGE = ("docs/reference/command-line.md", "docs/reference/kubectl-messagestore.md")


@dataclass(frozen=True)
class Block:
    """A block of code and its heading."""

    page: str
    heading: str
    language: str
    text: str

    @property
    def commands(self) -> str:
        """The commands for a shell: in a console block, those behind the prompts."""
        return "".join(f"{one}\n" for one in self.each) if self.language == "console" else self.text

    @property
    def each(self) -> list[str]:
        """The commands one by one; a block without prompts is one."""
        return PROMPTED.findall(self.text) if self.language == "console" else [self.text]

    @property
    def output(self) -> str | None:
        """The output in a console block; None if it has none."""
        return PROMPTED.sub("", self.text).removesuffix("\n") if self.language == "console" else None


def blocks() -> Iterator[Block]:
    """All blocks of code of all pages, including indented ones."""
    pages = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "examples/README.md"]
    for page in sorted(pages):
        name, heading = str(page.relative_to(REPOSITORY)), ""
        tokens = MarkdownIt().parse(page.read_text(encoding="utf-8")) if name not in USAGE else []
        for before, token in zip([None, *tokens], tokens, strict=False):
            if before is not None and before.type == "heading_open":
                heading = token.content
            elif token.type in {"fence", "code_block"}:
                yield Block(name, heading, token.info.strip(), token.content)


def commands(page: str, heading: str) -> list[str]:
    """The commands of a heading, one by one."""
    there = [block for block in blocks() if (block.page, block.heading) == (page, heading)]
    return [one for block in there if block.language in SHELL for one in block.each]


def within(folder: Path, text: str) -> str:
    """A text with the folders of the pages' data moved into another one."""
    for one in FOLDERS:
        text = text.replace(one, str(folder / Path(one).name))
    return text


def run_script(script: str, folder: Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run commands of pages by bash until one fails, with the pages' data below ``folder``."""
    return subprocess.run(
        _bash(within(folder, script)), cwd=cwd, env=_environment(), capture_output=True, text=True, check=False
    )


def check_page(page: str, headings: Collection[str], folder: Path, names: Mapping[str, str] | None = None) -> str:
    """Run the commands of a page's headings in a folder with the examples, with the page's data moved into it.

    Args:
        names: what stands for others of the page and of the manifests.

    Returns:
        what they printed.

    Raises:
        AssertionError: one fails, or doesn't print what the page shows.
    """
    shutil.copytree(REPOSITORY / "examples", folder / "examples")

    def renamed(text: str) -> str:
        for name, other in (names or {}).items():
            text = text.replace(name, other)
        return within(folder, text)

    for file in (*(folder / "examples").rglob("*.yaml"), *(folder / "examples").rglob("*.properties")):
        file.write_text(renamed(file.read_text()))
    run = [block for block in blocks() if block.page == page and block.heading in headings]
    script = "".join(f"{block.commands}\necho '{_END}'\n" for block in run)
    done = run_script(renamed(script), folder, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = done.stdout.split(f"{_END}\n")
    for block, output in zip(run, outputs, strict=False):
        if block.output is not None:
            wanted = ".*".join(re.escape(part) for part in _plain(renamed(block.output)).split("…"))
            assert re.fullmatch(wanted, _plain(output), re.DOTALL), f"{block.text}\nprinted:\n{output}"
    assert outputs[len(run) :] == [""]
    return done.stdout


def _plain(text: str) -> str:
    """The text without the spaces that align columns."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def run_until(printed: str, command: str, cwd: Path) -> str:
    """Run a command that doesn't end by itself until it has printed a line with this text; returns what it printed.

    Raises:
        AssertionError: it didn't print it.
    """
    limited = ["timeout", f"{scaled(60):.0f}", *_bash(command)]
    output = ""
    with subprocess.Popen(limited, cwd=cwd, env=_environment(), stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            output += line
            if printed in line:
                process.terminate()
                return output
    raise AssertionError(f"{command}\nended, or didn't print {printed} in time:\n{output}")


def _bash(script: str) -> list[str]:
    return ["bash", "-euo", "pipefail", "-c", script]


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
