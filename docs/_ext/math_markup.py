"""Formulas as MathML, which browsers draw by themselves: pages load no script for them."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def visit_inline(writer, node):
    """Write a formula in a line, and nothing of what the node holds besides."""
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_block(writer, node):
    """Write a formula that stands by itself."""
    writer.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Tell Sphinx who writes formulas."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
