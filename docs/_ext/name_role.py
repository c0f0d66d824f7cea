"""Words in backticks: public names become links, on pages and in docstrings; others are code."""

from api_pages import public_name
from docutils import nodes
from sphinx import addnodes


def link(raw, text, name):
    """The word as code that leads to the page of a name."""
    shown = nodes.literal(raw, text)
    return addnodes.pending_xref(raw, shown, refdomain="py", reftype="obj", reftarget=name)


def name_role(role, raw, text, line, inliner, options=None, content=None):
    """A link to the page of a public name, or the word as code."""
    name = public_name(text)
    return [link(raw, text, name) if name else nodes.literal(raw, text)], []


def link_names(app, doctree):
    """Make links of the public names on pages in Markdown, which have no roles for code."""
    if not app.env.docname.startswith(("api/", "gallery/")):
        for node in list(doctree.findall(nodes.literal)):
            name = public_name(node.astext())
            if name and not isinstance(node.parent, nodes.reference | nodes.title):
                node.replace_self(link(node.rawsource, node.astext(), name))


def setup(app):
    """Make it the role of words that name none, and of code in Markdown."""
    app.add_role("name", name_role)
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
