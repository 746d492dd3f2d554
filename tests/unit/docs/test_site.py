"""The build of the documentation fails on a dead link, and its pages load nothing from another host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
LIST = """# Documentation

## Begin

[README](../README.md), [page](page.md), [patterns](patterns/README.md), [examples](../examples/README.md)
"""


LIVE = ["../README.md#project", "#a-place", "../run.sh", "../examples/orders", "../examples/"]
DEAD = ["gone.md", "../README.md#gone", "#gone", "../gone.sh", "../examples/gone", "../charts/"]


def _site(folder: Path, links: list[str]) -> subprocess.CompletedProcess[str]:
    """Build the site of a small repository as `make docs` does; a page has these links, one per paragraph."""
    page = "\n\n".join(f"[link]({link})" for link in links)
    files = {
        "README.md": "# Project\n\n[a page](docs/page.md#a-place), [a file](run.sh)\n",
        "run.sh": "",
        "docs/README.md": LIST,
        "docs/page.md": f"# Page\n\n## A place\n\n{page}\n",
        "docs/patterns/README.md": "# Patterns\n\n```mermaid\nflowchart LR\n  a --> b\n```\n",
        "examples/README.md": "# Examples\n",
        "examples/orders/stream.yaml": "",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sphinx = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    conf = ["-c", str(REPOSITORY / "docs/site")]
    return subprocess.run(
        [*sphinx, *conf, str(folder), str(folder / "build")], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    done = _site(folder, LIVE)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    return folder / "build"


def test_links_to_pages_places_files_and_folders_are_followed(made: Path) -> None:
    text = (made / "docs/page.html").read_text()
    found = re.findall(r'href="([^"]*)"[^>]*>(?:<span[^>]*>)?link<', text)
    file = found.pop(2)
    assert (made / "docs" / file).resolve().name == "run.sh"
    examples = "../examples/README.html"
    assert found == ["../README.html#project", "#a-place", examples, examples], "of a folder the page that is nearest"


def test_each_dead_link_and_each_page_that_no_list_has_fails(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/alone.md").write_text("# Alone\n")
    done = _site(tmp_path, DEAD)
    assert done.returncode != 0
    told = re.findall(r"docs/page\.md:(\d+): WARNING: .*(?:target not found|local id not found)", done.stderr)
    assert sorted(int(line) for line in told) == [5 + 2 * at for at in range(len(DEAD))], done.stderr
    assert "docs/alone.md: WARNING: document isn't included in any toctree" in done.stderr


def test_a_page_loads_nothing_from_another_host(made: Path) -> None:
    """Links that a reader may follow don't count."""
    loads = re.compile(r"<(?:script|img|iframe)[^>]*src=[\"']?(?:https?:)?//|<link[^>]*href=[\"']?(?:https?:)?//")
    styles = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")
    texts = {one: one.read_text() for one in made.rglob("*") if one.suffix in {".html", ".css"}}
    assert [one for one, text in texts.items() if loads.search(text) or styles.search(text)] == []
    assert len(texts) > len(LIVE)


def test_a_page_with_a_picture_brings_what_draws_it(made: Path) -> None:
    page, other = ((made / "docs" / name).read_text() for name in ("patterns/README.html", "page.html"))
    assert re.search(r'<pre class="mermaid">flowchart LR\s+a --&gt; b\s*</pre>', page), page
    (program,) = re.findall(r'src="([^"?]*mermaid[^"?]*)', page)
    assert (made / "docs/patterns" / program).stat().st_size > 1_000_000
    assert "mermaid" not in other
