"""The shell commands of the documentation: which of them tests run, and why the others aren't run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

REPOSITORY = Path(__file__).parents[2]
SHELL = {"sh", "bash", "shell", "console"}

CLUSTER = "needs a cluster"
IMAGES = "makes images, and a cluster"
LONG = "starts the tests or the demo, which are long"
OWN = "has names of the reader's own files and buckets"
PAIRS = "goes between programs; tests/jobs/examples/test_request_reply.py runs them all"

# The headings of a page whose commands are run, from the first to the last one, by tests/jobs/documents.
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
# The headings whose commands tests/e2e runs in the cluster that it has.
RUN_IN_CLUSTER: dict[str, tuple[str, ...]] = {
    "docs/tutorial.md": ("Make one", "Give it messages and credentials", "Store, purge, replay"),
}
# Why others are not, by page and heading.
NOT_RUN: dict[str, dict[str, str]] = {
    "README.md": {"Try it": LONG, "Run it on Kubernetes": IMAGES},
    "docs/cluster.md": {"A cluster to try and test with": IMAGES, "By hand": CLUSTER},
    "docs/gitops.md": {"GitOps": CLUSTER, "Argo CD": CLUSTER},
    "docs/install.md": {
        "Get the images": IMAGES,
        "Install the chart": CLUSTER,
        "Serve chosen namespaces": CLUSTER,
        "Upgrade and uninstall": CLUSTER,
    },
    "docs/local-runs.md": {"Run a store on your machine": OWN},
    "docs/operator.md": {"Pauses and windows": CLUSTER},
    "docs/patterns/request-reply.md": {"Request and reply": PAIRS},
    "docs/reading.md": {"From the command line": OWN},
    "docs/security.md": {"Secrets": CLUSTER, "Metrics": CLUSTER},
    "docs/tutorial.md": {
        "Set up": "is what make did before any test",
        "Clean up": CLUSTER,
    },
}
FOLDERS = ("/tmp/messagestore-demo", "/tmp/messagestore-tutorial")
"""The folders of the pages' data."""
# Its blocks are usage, made by typer.
USAGE = "docs/reference/command-line.md"


@dataclass(frozen=True)
class Block:
    """A block of code, and the heading that it stands below."""

    page: str
    heading: str
    language: str
    text: str

    @property
    def commands(self) -> str:
        """What a shell is given: of a console, what stands behind its prompt."""
        if self.language != "console":
            return self.text
        return "".join(f"{line[2:]}\n" for line in self.text.splitlines() if line.startswith("$ "))

    @property
    def output(self) -> str | None:
        """What a console then shows; None where that isn't told."""
        if self.language != "console":
            return None
        return "\n".join(line for line in self.text.splitlines() if not line.startswith("$ "))


def blocks() -> Iterator[Block]:
    """All blocks of code of all pages, indented ones too."""
    pages = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "examples/README.md"]
    for page in sorted(pages):
        name, heading = str(page.relative_to(REPOSITORY)), ""
        tokens = MarkdownIt().parse(page.read_text(encoding="utf-8")) if name != USAGE else []
        for before, token in zip([None, *tokens], tokens, strict=False):
            if before is not None and before.type == "heading_open":
                heading = token.content
            elif token.type in {"fence", "code_block"}:
                yield Block(name, heading, token.info.strip(), token.content)


def within(folder: Path, text: str) -> str:
    """A text in which the folders of the pages' data are in another one."""
    for one in FOLDERS:
        text = text.replace(one, str(folder / Path(one).name))
    return text
