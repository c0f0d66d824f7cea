"""The inference study: marginals from samples that are weighted, collapsed, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pandas as pd

import expectedkernels as ek
from expectedkernels.checks import DataError, check_real
from expectedkernels.kernels.empirical import distinct_rows
from expectedkernels.sampling.weights import check_gram, minimise
from studies import base

GRID_FILE = "ising_4x4.uai"
"""The grid of the paper, in the data folder or in its folder `uai`."""
BURN_IN, THIN = 2000, 1000
"""As published: the first state is recorded after 3000 updates of single variables."""
PROPOSALS = {
    "gibbs": "a thinned Gibbs chain",
    "uniform": "uniformly drawn states",
    "sticky": "every update of a Gibbs chain",
}
"""Where samples come from; the last chain is taken from its start."""
MASKS = ("per sample", "fixed")
"""Collapsed variables drawn anew for every sample, or once for all."""
SNAP = 1e-7
"""Estimates this close to zero or one are zero or one."""
SMALLEST = 1e-8
"""Smaller errors are taken to be this large: they are rounding, and would dominate means."""
HINDSIGHT = "best ridge"
RULES = ("uniform", "raw", "smoothed", "default", "signed", HINDSIGHT)
"""How samples are weighted. The best ridge is chosen in hindsight, by its error: a bound."""
HINDSIGHT_STEP = 50
"""It takes longest, so it is not found for all numbers of samples."""
CIS_RULES = ("one set", "per query")
"""One set of samples for all marginals, or a set for every marginal, its variable collapsed."""
RIDGES = (0.0, *(10.0**e for e in np.arange(-4, 2.1, 0.5)))


@dataclass(frozen=True, eq=False)
class Model:
    """A target with its exact marginals.

    Attributes
    ----------
    name : str
    graph : FactorGraph
    circuit : Circuit
        The compiled graph.
    always : tuple of int
        Variables that others determine: they are collapsed in all samples, as Stein operators must
        not meet zeros, and single-site moves must not be blocked.
    """

    name: str
    graph: ek.FactorGraph
    circuit: ek.Circuit
    always: tuple[int, ...]

    @cached_property
    def exact(self) -> Any:
        """The marginals of all variables, one after the other."""
        return np.concatenate([np.asarray(table) for table in self.circuit.marginals()])

    def n_collapsed(self, share: float) -> int:
        """How many variables a share of them is."""
        return max(len(self.always), round(share * self.graph.n_variables))

    def tables(self, rows: Any) -> Any:
        """The conditional marginals of all variables given each row, side by side."""
        return np.concatenate([np.asarray(t) for t in self.circuit.marginals(rows)], axis=1)

    def error(self, estimates: Any) -> float:
        """The log of the mean Hellinger distance of estimated marginals from the exact ones.

        Estimates outside of [0, 1], which signed weights can lead to, are clipped.
        """
        starts = np.cumsum([0, *self.graph.cardinalities[:-1]])
        if (estimates < 0).any():
            estimates = np.clip(estimates, 0.0, 1.0)
            sums = np.add.reduceat(estimates, starts)
            estimates = estimates / np.repeat(sums, self.graph.cardinalities)
        estimates = np.where(estimates < SNAP, 0.0, estimates)
        estimates = np.where(estimates > 1 - SNAP, 1.0, estimates)
        squares = (np.sqrt(self.exact) - np.sqrt(estimates)) ** 2
        distances = np.sqrt(np.add.reduceat(squares, starts) / 2)
        return float(np.log(max(distances.mean(), SMALLEST)))


def make_model(name: str, graph: ek.FactorGraph) -> Model:
    """The model of a factor graph that can be compiled.

    Examples
    --------
    >>> model = make_model("asia", ek.asia())
    >>> model.always, model.n_collapsed(0.25), model.n_collapsed(0.5)
    ((5,), 2, 4)
    >>> round(model.error(model.exact), 3)  # no distance but rounding
    -18.421
    """
    return Model(name, graph, graph.circuit(), tuple(ek.stein.determined_variables(graph)))


def find_model(name: str, folder: str | Path | None = None) -> tuple[str, str | None]:
    """What a model is called in results, and the file that it is in (None: it is made here).

    Parameters
    ----------
    name : str
        "ising", "asia", or the path of a `.uai` or `.bif` file, which is called by its name and by
        what is in it.
    folder : str or Path, optional
        Where the grid of the paper is looked for; without it, "ising" is another random grid, and
        called so.

    Examples
    --------
    >>> find_model("asia"), find_model("ising")
    (('asia', None), ('ising-random', None))
    """
    path = Path(name)
    if name in ("ising", "ising-random"):
        places = [Path(folder) / "uai", Path(folder)] if folder and name == "ising" else []
        files = [place / GRID_FILE for place in places if (place / GRID_FILE).is_file()]
        return (name, str(files[0])) if files else ("ising-random", None)
    if name == "asia":
        return name, None
    if "." not in path.name:
        there = "ising; asia; and the path of a .uai or .bif file"
        raise DataError(f"There is no model {name!r}. There are: {there}.")
    return f"{path.name} {sha256(path.read_bytes()).hexdigest()[:8]}", name


@lru_cache(maxsize=4)
def load_model(name: str, path: str | None, seed: int) -> Model:
    """The model that `find_model` found; kept, as the next cell is most likely of the same."""
    if path is not None:
        return make_model(name, ek.io.read_model(path))
    return make_model(name, ek.asia() if name == "asia" else ek.ising_grid(4, 4, rng=seed))


def draw_points(model: Model, proposal: str, n: int, rng: Any, thin: int = THIN) -> Any:
    """Samples of a model, NaN at variables that are always collapsed, shape (n, variables).

    More samples do not change the first ones.

    Examples
    --------
    >>> model = make_model("asia", ek.asia())
    >>> draw_points(model, "uniform", 2, np.random.default_rng(0)).tolist()
    [[1.0, 1.0, 1.0, 0.0, 0.0, nan, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0, 1.0, nan, 1.0, 1.0]]
    """
    if proposal == "uniform":
        cards = np.asarray(model.graph.cardinalities)
        rows = rng.integers(cards, size=(n, model.graph.n_variables)).astype(np.float64)
        rows[:, list(model.always)] = np.nan
        return rows
    burn_in, thin = (BURN_IN, thin) if proposal == "gibbs" else (0, 1)
    return ek.collapsed_gibbs(model.graph, n, model.always, burn_in, thin, rng, progress=False)


def collapse(model: Model, rows: Any, share: float, masks: str, rng: Any) -> Any:
    """The rows with a share of the variables collapsed, those that always are counted in.

    Examples
    --------
    >>> model = make_model("asia", ek.asia())
    >>> rows = collapse(model, np.zeros((3, 8)), 0.5, "per sample", np.random.default_rng(0))
    >>> np.isnan(rows).sum(axis=1).tolist(), np.isnan(rows[:, 5]).tolist()
    ([4, 4, 4], [True, True, True])
    """
    rows = np.array(rows, dtype=np.float64)
    rows[:, list(model.always)] = np.nan
    free = [v for v in range(model.graph.n_variables) if v not in model.always]
    k = model.n_collapsed(share) - len(model.always) if share else 0
    for row in rows[None] if masks == "fixed" else rows:
        row[..., rng.permutation(free)[:k]] = np.nan
    return rows


@dataclass(frozen=True)
class Settings:
    """What has to be the same for results to belong together.

    Attributes
    ----------
    seed : int
    n, step : int
        The number of samples, and between recorded numbers of them.
    thin : int
        The number of updates of single variables between samples of the Gibbs chain.
    """

    seed: int = 0
    n: int = 200
    step: int = 10
    thin: int = THIN

    @property
    def counts(self) -> range:
        """The numbers of samples at which errors are recorded."""
        return range(self.step, self.n + 1, self.step)


class Cell(NamedTuple):
    """One set of samples: all rules for weights are compared on it.

    Attributes
    ----------
    model : str
    proposal : str
        Where the samples come from: "gibbs", "uniform", "sticky" or "cis".
    collapsed : float
        The share of the variables that are marginalised.
    masks : str
        How they are chosen: "none", "per sample" or "fixed"; "online" for CIS.
    trial : int
    """

    model: str
    proposal: str
    collapsed: float
    masks: str
    trial: int


KEYS = get_type_hints(Cell) | {"rule": str, "n": int}
VALUES = {"error": float, "ess": float, "discrepancy": float}


def _rng(cell: Cell, settings: Settings, stream: int) -> Any:
    """Random numbers of their own; points are the same for all shares and masks."""
    where = f"{cell.model}/{cell.proposal}"
    if stream:
        where += f"/{cell.collapsed:g}/{cell.masks}"
    return base.cell_rng(settings.seed, where, cell.trial, stream)


def cell_rows(model: Model, cell: Cell, settings: Settings) -> Any:
    """The samples of a cell, NaN where variables are collapsed."""
    points = draw_points(model, cell.proposal, settings.n, _rng(cell, settings, 0), settings.thin)
    return collapse(model, points, cell.collapsed, cell.masks, _rng(cell, settings, 1))


def stein_gram(model: Model, rows: Any, operator: str) -> Any:
    """The Gram matrix of the model's Stein kernel between collapsed samples.

    The operator is "shift", that of the discrepancy, or "gibbs", that of the default weights.
    """
    if not np.isnan(rows).any():
        return ek.SteinKernel(model.graph, operator=operator)(rows)
    options: Any = {"operator": operator, "positive": model.graph.is_positive or None}
    return ek.CollapsedSteinKernel(model.circuit, **options)(rows)


class Block:
    """The first samples of a cell, with all that weights are made of and judged by."""

    def __init__(self, model: Model, gram: Any, other: Any, tables: Any, rows: Any, n: int):
        self.model, self.gram, self.tables = model, gram[:n, :n], tables[:n]
        self.other: Any = None if other is None else other[:n, :n]
        self.groups = distinct_rows(rows[:n])[1]
        self.equal = np.full(n, 1 / n)

    @cached_property
    def raw(self) -> Any:
        """The probabilities that minimise the discrepancy."""
        return self.ridge(0.0)

    def ridge(self, amount: float) -> Any:
        """The same with a multiple of the mean diagonal entry added to the diagonal."""
        return minimise(check_gram(self.gram, "ridge"), self.groups, ridge=amount).weights

    def error(self, weights: Any) -> float:
        """The log of the mean Hellinger distance."""
        return self.model.error(weights @ self.tables)


_WEIGHTS: dict[str, Callable[[Block], Any]] = {
    "uniform": lambda b: b.equal,
    "raw": lambda b: b.raw,
    "smoothed": lambda b: ek.stein.smoothed_weights(b.raw),
    "default": lambda b: ek.stein.default_weights(b.gram, b.other, groups=b.groups).weights,
    "signed": lambda b: ek.stein.signed_weights(b.gram),
    HINDSIGHT: lambda b: min([b.raw, *map(b.ridge, RIDGES[1:]), b.equal], key=b.error),
}


def evaluate(model: Model, cell: Cell, rules: Sequence[str], settings: Settings) -> list[Any]:
    """The errors of some rules for weights in a cell, for all numbers of samples."""
    if cell.proposal == "cis":
        return [r for rule in rules for r in _evaluate_cis(model, cell, rule, settings)]
    rows = cell_rows(model, cell, settings)
    gram, tables = stein_gram(model, rows, "shift"), model.tables(rows)
    other = stein_gram(model, rows, "gibbs") if "default" in rules else None
    found, counts = [], settings.counts
    for n in counts:
        block = Block(model, gram, other, tables, rows, n)
        for rule in rules:
            if rule == HINDSIGHT and n % HINDSIGHT_STEP and n != counts[-1]:
                continue
            w = _WEIGHTS[rule](block)
            value = float(w @ block.gram @ w)
            found.append((*cell, rule, n, block.error(w), float(1 / (w @ w)), value))
    return found


def _evaluate_cis(model: Model, cell: Cell, rule: str, settings: Settings) -> Iterator[Any]:
    """The errors of collapsed importance sampling; of a longer run the first samples are taken."""
    rng, budget = _rng(cell, settings, 1), model.n_collapsed(cell.collapsed)
    cards = model.graph.cardinalities
    options: dict[str, Any] = {"progress": False}
    runs = [(slice(None), options)]
    if rule != "one set":
        ends, options = np.cumsum(cards).tolist(), options | {"order": "bfs", "select": "mi"}
        places = [slice(end - card, end) for card, end in zip(cards, ends, strict=True)]
        runs = [(place, options | {"query": v}) for v, place in enumerate(places)]
    weighed = []
    for columns, own in runs:
        samples = ek.cis(model.graph, settings.n, budget, rng, **own)
        possible = samples.log_weights > -np.inf
        tables = np.zeros((settings.n, len(model.exact)))
        tables[possible] = model.tables(samples.rows[possible])
        weighed.append((samples.log_weights, tables[:, columns]))
    for n in settings.counts:
        estimates, sizes = [], []
        for logs, tables in weighed:
            w = np.exp(logs[:n] - logs[:n].max()) if np.isfinite(logs[:n]).any() else np.ones(n)
            w = w / w.sum()
            estimates.append(w @ tables[:n])
            sizes.append(1 / (w @ w))
        error = model.error(np.concatenate(estimates))
        yield (*cell, rule, n, error, float(np.mean(sizes)), float("nan"))


QUICK = Settings(n=100, thin=200)
"""Settings for a first look within a minute."""
QUICK_OPTIONS = {"cis_rules": CIS_RULES[:1], "trials": 2}
NAMES: dict[str, Any] = {
    "proposals": ("proposal", PROPOSALS),
    "masks": ("kind of masks", MASKS),
    "rules": ("rule for weights", RULES),
    "again": ("rule for weights", RULES),
    "cis_rules": ("variant of CIS", CIS_RULES),
}
DEFAULTS: dict[str, Any] = {"models": ("ising", "asia"), "proposals": tuple(PROPOSALS)[:2]}
DEFAULTS |= {"shares": (0.25, 0.5), "again": (), "trials": 5}
CURVE = ["model", "proposal", "collapsed", "masks", "rule"]
"""What a curve over numbers of samples is of."""
LEAST = 100
"""Methods are compared at this number of samples and above."""
NOISE = 2.0
"""Differences within so many standard errors are none."""
WEIGHTED = ("raw", "smoothed", "default")
"""The rules that the claims about weighted samples are looked at for."""
GIBBS = "gibbs"
"""Where the samples come from that the claims are about."""
SIZES = (50, 100, 200)
"""The numbers of samples there."""


def work(cell: Cell, path: str | None, rules: Sequence[str], settings: Settings) -> list[Any]:
    """The errors of some rules for weights in a cell of a model in a file."""
    return evaluate(load_model(cell.model, path, settings.seed), cell, rules, settings)


def tasks(options: Any, settings: Settings, folder: Any, results: base.Results) -> Iterator[Any]:
    """What is left to do; a try of everything comes before the next one."""
    for share in options.shares:
        check_real("the inference study", "shares", share, 0.0, 1.0, "(]", DataError)
    models = dict(find_model(model, folder) for model in options.models)
    for name, path in models.items():
        load_model(name, path, settings.seed)  # problems with files show before the work
    places: Any = [(0.0, "none"), *product(options.shares, options.masks)]
    trials = range(options.trials)
    whole = product(trials, models, options.proposals, places)
    online = product(trials, models, ["cis"], product(options.shares, ["online"]))
    for trial, *key, place in (*whole, *online):  # CIS makes its own samples
        cell = Cell._make([*key, *place, trial])
        rules = options.cis_rules if cell.proposal == "cis" else options.rules
        left = results.left(cell, rules, settings.counts[-1])
        if left := [rule for rule in rules if rule in left or rule in options.again]:
            yield cell, models[cell.model], left, settings


def _read(name: str, index: list[str]) -> Any:
    path = Path(__file__).with_name(name)
    return pd.read_csv(path, index_col=index, na_filter=False).sort_index()


REFERENCE = _read("reference.csv", CURVE).rename(columns=int).rename_axis(columns="n").stack()
"""Errors from an independent computation, to compare with, by curve and number of samples.

The paper shows curves but no numbers, and its figures smooth the weights without saying so. These
numbers come from another implementation of the same protocol, by exact computation: means of
five tries of the log of the mean Hellinger distance, on the grid of the paper ("ising") and the
network "asia".
"""
REFERENCE_WEIGHTS = _read("reference_weights.csv", CURVE[:3])
"""The same at 200 samples with masks per sample, means of ten tries, by rule for weights."""
COUNTS = tuple(REFERENCE.index.unique("n"))
"""The numbers of samples of all known curves."""


def baselines(share: float, rule: str) -> dict[str, tuple[str, float, str, str]]:
    """The curves that collapsed samples with a rule for weights are compared with."""
    return {
        "CVS": (GIBBS, share, "per sample", "uniform"),
        "VS": (GIBBS, 0.0, "none", "uniform"),
        "BBIS": (GIBBS, 0.0, "none", rule),
        "CIS": ("cis", share, "online", "one set"),
    }


def differences(frame: Any, pairs: Any) -> Any:
    """How much larger the errors of collapsed samples are than those of baselines, by model.

    Means over numbers of samples from `LEAST` on, and over tries with their standard errors.
    """
    index, keys = ["model", "trial", "n"], ["collapsed", "weights", "baseline", "model"]
    wide = frame[frame["n"] >= LEAST].pivot_table("error", index, CURVE[1:], sort=False)
    gaps = {}
    for share, (rule, name) in product(sorted(set(frame["collapsed"]) - {0.0}), pairs):
        ours, theirs = (GIBBS, share, "per sample", rule), baselines(share, rule)[name]
        if ours in wide and theirs in wide:
            gaps[share, rule, name] = wide[ours] - wide[theirs]
    if not gaps:
        return pd.DataFrame()
    tries = pd.concat(gaps, names=keys[:3]).dropna().groupby([*keys, "trial"], sort=False).mean()
    found = tries.groupby(keys, sort=False).agg(mean="mean", error="sem")
    found = found.fillna({"error": 0.0}).reset_index()
    margin = NOISE * found["error"]
    signs = [found["mean"] < -margin, found["mean"] > margin]
    found["outcome"] = np.select(signs, ["better", "worse"], "equal")
    place = found["model"] + " " + found["collapsed"].map("{:.0%}".format) + ": "
    found["place"] = place + found["baseline"] + found["mean"].map(" ({:+.2f})".format)
    return found


def agreement(frame: Any) -> Any:
    """All curves for which there are reference values, at all numbers of samples.

    References are means of five tries; those of a fixed partition share one partition.
    """
    fixed = REFERENCE.index.get_level_values("masks") == "fixed"
    share = pd.Series(np.where(fixed, 1.0, 1 / base.REPETITIONS), REFERENCE.index)
    return base.compare(frame.groupby([*CURVE, "n"])["error"], REFERENCE, share)


def rules_table(frame: Any) -> Any:
    """The mean errors of rules for weights, per-sample masks: one row for every place."""
    wanted = frame["masks"].isin(["none", "per sample"]) & frame["n"].isin(SIZES)
    index = ["model", "proposal", "collapsed", "n"]
    found = frame[wanted].pivot_table("error", index, "rule", sort=False)
    order = frame["model"].unique(), frame["proposal"].unique(), sorted(set(frame["collapsed"]))
    found = found.loc[[place for place in product(*order, SIZES) if place in found.index]]
    return found[[rule for rule in (*RULES[:4], HINDSIGHT, "signed") if rule in found]]


def report(frame: Any, comparable: bool = True) -> tuple[Any, ...]:
    """What `write_report` writes; reference values are there if settings are the paper's."""
    # CBBIS with every rule beside all baselines, and collapsed samples beside complete ones
    claims = differences(frame, list(product(WEIGHTED, baselines(0.0, ""))))
    helps = differences(frame, [("uniform", "VS"), *((rule, "BBIS") for rule in WEIGHTED)])
    weights, sections, lines = rules_table(frame), [], []
    values: dict[str, Any] = {"least": LEAST} | ({} if comparable else {"other_settings": ""})
    if len(claims):
        cells = [f"{x.mean:+.2f} ± {x.error:.2f}" for x in claims[["mean", "error"]].itertuples()]
        index = ["model", "collapsed", "weights"]
        shown = claims.assign(cell=cells)
        options: Any = {"aggfunc": "first", "sort": False, "fill_value": ""}
        grid = shown.pivot_table("cell", index, "baseline", **options)
        words = (
            f"Differences of the logs, averaged over N >= {LEAST}, with standard errors over tries "
            "(Gibbs, masks per sample). Negative: CBBIS is better."
        )
        sections.append(("Weighted collapsed samples against the baselines", [words, grid]))
        counts = claims[claims["weights"] == "smoothed"]["outcome"].value_counts()
        values |= {"won": counts.get("better", 0), "lost": counts.get("worse", 0)}
        values["compared"] = counts.sum()
        for rule, ours in claims.groupby("weights", sort=False):
            lost = "; ".join(ours[ours["outcome"] == "worse"]["place"])
            behind = "; ".join(ours[(ours["outcome"] == "equal") & (ours["mean"] > 0)]["place"])
            verdict = f"**does not hold**, worse than {lost}" if lost else "**holds**"
            verdict += f"; behind, but within the noise: {behind}" if behind else ""
            lines.append(
                f"- That CBBIS never loses to a baseline, {rule} weights (N >= {LEAST}, Gibbs, "
                f"masks per sample): {verdict}."
            )
        values["claims"] = "\n".join(lines)
    if len(helps):
        worse = helps[helps["outcome"] == "worse"]
        where = "; ".join(worse["weights"] + " " + worse["place"])
        values |= {"better": (helps["outcome"] == "better").sum(), "collapsed": len(helps)}
        values |= {"worse": len(worse), "worse_where": f" ({where})" * bool(where)}
    known: Any = agreement(frame) if comparable else ()
    if len(known):
        far = known[known["distance"] > 3].reset_index()
        where = "; ".join(
            f"{x.model}, {x.proposal}, {method_name(x.collapsed, x.masks, x.rule)}, N = {x.n}: "
            f"{x.mean:.2f} and not {x.known:.2f}, {x.distance:.1f}"
            for x in far.itertuples()
        )
        values |= {"near": len(known) - len(far), "known": len(known)}
        values["inside"] = known["known"].between(known["min"], known["max"]).sum()
        values["far"] = f" (outside of three: {where})" * bool(where)
    if len(weights):
        average = weights.dropna().mean().items()
        values["rules"] = ", ".join(f"{rule} {x:.2f}" for rule, x in average)
        words = "Masks per sample; reference values in brackets."
        sections.append(("Which weights?", [words, _with_reference(weights, comparable)]))
    for model, proposal in product(frame["model"].unique(), PROPOSALS):
        found = table(frame, model, proposal, comparable)
        if len(found):
            sections.append((f"{model}, samples from {PROPOSALS[proposal]}", [found]))
    return values, sections, weights, lambda: figure(frame)


def _with_reference(weights: Any, comparable: bool) -> Any:
    """The table of rules as text, with reference values at 200 samples."""
    shown = base.text(weights, "{:.2f}")
    if comparable:
        known = pd.concat({200: REFERENCE_WEIGHTS}, names=["n"]).reorder_levels(weights.index.names)
        known = known.reindex(index=shown.index, columns=shown.columns)
        shown += base.text(known, " ({:.2f})")
    shown = shown.rename(index="{:.0%}".format, level="collapsed")
    return shown.rename_axis(index={"proposal": "samples", "n": "N"})


def method_name(share: float, masks: str, rule: str) -> str:
    """What a curve is called.

    Examples
    --------
    >>> method_name(0.0, "none", "uniform"), method_name(0.25, "fixed", "raw")
    ('VS', 'CBBIS 25%, fixed, raw')
    """
    if masks == "online":
        return f"CIS {share:.0%}, {rule}"
    name = "VS" if rule == "uniform" else "BBIS"
    parts = [f"C{name} {share:.0%}", masks] if share else [name]
    return ", ".join(parts if rule == "uniform" else [*parts, rule])


def table(frame: Any, model: str, proposal: str, comparable: bool) -> Any:
    """Methods down, numbers of samples across, reference values below each method."""
    sources = [proposal, "cis"] if proposal == GIBBS else [proposal]
    own = frame[(frame["model"] == model) & frame["proposal"].isin(sources)]
    own = own[own["rule"] != "best ridge"]
    there = sorted(own["n"].unique())
    counts = [n for n in COUNTS if n in there] or there
    rows = {}
    for key, found in own.groupby(CURVE, sort=False):
        by_count = found.groupby("n")["error"]
        cells = by_count.agg(lambda errors: base.mean_and_std(errors, 2)).reindex(counts).fillna("")
        size = found["ess"][found["n"] == there[-1]].mean()
        rows[method_name(*key[2:])] = [*cells, f"{size:.1f}"]
        if comparable and key in REFERENCE.index:
            known = REFERENCE.loc[key].map("{:.2f}".format).reindex(counts).fillna("")
            rows[f"*reference: {method_name(*key[2:])}*"] = [*known, ""]
    columns = [*(f"N = {n}" for n in counts), "ESS"]
    return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("method")


def figure(frame: Any) -> Any:
    """The axes of the figure of the paper, one panel per model and share; None without results."""
    panels: dict[str, Any] = {}
    found = {key: base.curve(own, "n") for key, own in frame.groupby(CURVE)}
    shares = sorted(set(frame["collapsed"]) - {0.0})
    for model, share in product(frame["model"].unique(), shares):
        shown = {"CBBIS": (GIBBS, share, "per sample", "smoothed"), **baselines(share, "smoothed")}
        own = {name: found[model, *key] for name, key in shown.items() if (model, *key) in found}
        if "CVS" in own:
            panels[f"{model}, {share:.0%} collapsed"] = own
    ylabels = dict.fromkeys(list(panels)[:1], "log of the mean Hellinger distance")
    return base.plot_panels(panels, "number of samples", ylabels, {})
