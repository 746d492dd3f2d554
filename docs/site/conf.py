"""How `make docs` makes a site of the pages that are also read as plain files: the repository is the source folder."""

import html
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from hack.downloads import package_folder
from sphinx import addnodes
from sphinx.application import Sphinx

project = "Message Store Operator"
extensions = ["myst_parser"]
myst_heading_anchors = 6
include_patterns = ["*.md", "docs/**.md", "examples/README.md"]
exclude_patterns = [".*", "build"]
root_doc = "docs/README"
# The pages whose links are the navigation.
LISTS = {root_doc, "docs/patterns/README"}

# The program that draws the pictures in a browser; it comes with the site, as no page loads anything from another host.
MERMAID = (
    "11.12.0",
    "66e755c7bdc1c2b3097c2166492253f38cbabb96eb12857c0ce22d747a2634bc"
    "f7dae06336b7a59bb9a0f795fb83e0ba528407fd6ea604b183103bfbdc977106",
)

highlight_language = "text"
html_theme = "furo"
html_title = project
html_show_copyright = False
html_copy_source = False
html_extra_path = ["index.html"]


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("doctree-read", _link_folders)
    app.connect("doctree-read", _mark_pictures)
    app.connect("html-page-context", _draw_pictures)
    # Before Sphinx looks for the lists of pages itself.
    app.connect("doctree-read", _list_pages, priority=400)


def _link_folders(app: Sphinx, tree: nodes.document) -> None:
    """A folder is a page nowhere but on a git host: its link goes to the README that is nearest to it."""
    root = Path(app.srcdir)
    for link in tree.findall(addnodes.pending_xref):
        folder = root / Path(app.env.relfn2path(link["reftarget"], link["refdoc"])[1])
        if link["reftype"] == "myst" and not link.get("refdomain") and folder.is_dir():
            pages = (app.env.path2doc(one / "README.md") for one in [folder, *folder.parents])
            link["refdomain"], link["reftargetid"] = "doc", None
            link["reftarget"] = next(page for page in pages if page in app.env.found_docs)


def _mark_pictures(_: Sphinx, tree: nodes.document) -> None:
    """A block of mermaid is a picture, as it is on a git host."""
    for block in list(tree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            text = html.escape(block.astext())
            block.replace_self(nodes.raw("", f'<pre class="mermaid">{text}</pre>', format="html", classes=["picture"]))


def _draw_pictures(app: Sphinx, *page: Any) -> None:
    """A page with pictures loads the program that draws them."""
    tree: nodes.document | None = page[-1]
    if tree is None or not any("picture" in raw["classes"] for raw in tree.findall(nodes.raw)):
        return
    program = Path(app.outdir) / "_static/mermaid.min.js"
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        shutil.copy(package_folder("mermaid", *MERMAID) / "dist" / program.name, program)
    app.add_js_file(program.name)


def _list_pages(app: Sphinx, tree: nodes.document) -> None:
    """Each section of a list is a part of the navigation, so that no page is named in two places."""
    if app.env.docname not in LISTS:
        return
    for section in list(tree.findall(nodes.section)):
        links = [link for link in section.findall(addnodes.pending_xref) if link.get("refdomain") == "doc"]
        entries = [(link.astext(), link["reftarget"]) for link in links if not link["reftargetid"]]
        if not entries or section.next_node(nodes.section):
            continue
        title = section[0].astext() if app.env.docname == root_doc else None
        pages = {"parent": app.env.docname, "entries": entries, "includefiles": [page for _, page in entries]}
        section += addnodes.toctree(
            **pages, caption=title, rawcaption=title, glob=False, hidden=True, maxdepth=-1, titlesonly=True
        )
