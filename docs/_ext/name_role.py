"""Words in single backticks: public names become links, all others are code."""

from docutils import nodes
from sphinx import addnodes

import expectedkernels as ek


def name_role(role, raw, text, line, inliner, options=None, content=None):
    """A link to the page of a public name, or the word as code."""
    shown = nodes.literal(raw, text)
    target = text.removeprefix("ek.").removeprefix("expectedkernels.")
    if target.partition(".")[0] not in ek.__all__:
        return [shown], []
    link = addnodes.pending_xref(
        raw, shown, refdomain="py", reftype="obj", reftarget=f"expectedkernels.{target}"
    )
    return [link], []


def setup(app):
    """Make it the role of words that name none."""
    app.add_role("name", name_role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
