"""How `make docs` makes a site of the pages that are also read as plain files: the repository is the source folder."""

from pathlib import Path

from docutils import nodes
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

highlight_language = "text"
html_theme = "furo"
html_title = project
html_show_copyright = False
html_copy_source = False
html_extra_path = ["index.html"]


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("doctree-read", _link_folders)
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
