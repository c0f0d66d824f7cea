"""What notebooks show: small pieces of HTML, escaped."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import expectedkernels as ek

P = ek.factorized([[0.5, 0.5], [0.3, 0.7]]).with_names(["<a>", "b&b"])
A = ek.Product([ek.Indicator(0, 1, 2), ek.Categorical(1, [0.2, 0.8])])
NEAR = [[1.0, 0.5], [0.5, 1.0]]

SHOWN = {
    "circuit": P,
    "large circuit": ek.random_circuit(ek.Vtree.balanced(16), 5, rng=0),
    "negative": ek.Circuit.from_units(ek.Sum([A, ek.Product(A.inputs)], [2.0, -1.0])),
    "units": A,
    "network": ek.asia().with_names([f"<{i}>" for i in range(8)]),
    "grid": ek.ising_grid(2, 2, rng=0),
    "vtree": ek.Vtree.balanced(5),
    "long vtree": ek.Vtree.right_linear(400),
    "one variable": ek.Vtree.balanced(1),
    "kernel": 2.0 * ek.RBF(0.5) + ek.Delta(),
    "kernel circuit": ek.KernelCircuit(ek.kernels.kernel_input(0, NEAR)),
    "samples": ek.WeightedSamples(P, [[0, np.nan], [1, 0]], [0.3, 0.7]),
    "explanation": ek.explain(P, P, ek.RBF(1.0)),
    "properties": ek.properties(P),
    "shapley": ek.shapley_values(lambda Z: np.nan_to_num(Z).sum(axis=1), [[2.0, 3.0]]),
}


class Reader(HTMLParser):
    """The tags and the words of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.words = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    return reader


@pytest.mark.parametrize("what", SHOWN.values(), ids=SHOWN)
def test_what_is_shown_is_small_and_has_known_tags_only(what):
    html = what._repr_html_()
    known = re.findall("[a-z]+", "div b table tr th td svg g line circle text title pre")
    assert set(read(html).tags) <= set(known)
    assert len(html) < 40_000
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_circuits_show_names_and_sizes_and_few_units():
    page = read(P._repr_html_())
    assert "2: <a>, b&b" in page.words
    assert page.tags.count("circle") == P.n_units
    assert page.tags.count("line") == P.n_edges
    assert "svg" not in read(SHOWN["large circuit"]._repr_html_()).tags


def test_vtrees_show_all_nodes_if_they_are_few():
    page = read(SHOWN["vtree"]._repr_html_())
    assert page.tags.count("circle") == 9
    assert page.tags.count("line") == 8
    assert set("01234") <= set(page.words)
    page = read(SHOWN["long vtree"]._repr_html_())
    assert {"400", "399"} <= set(page.words)
    assert "svg" not in page.tags


def test_networks_show_all_variables():
    page = read(SHOWN["network"]._repr_html_())
    assert {f"<{i}>" for i in range(8)} <= set(page.words)


def test_explanations_show_what_they_print():
    found = SHOWN["explanation"]
    assert str(found) in read(found._repr_html_()).words
