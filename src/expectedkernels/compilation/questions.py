"""Questions that graphical models answer as circuits do."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from expectedkernels.arrays import Array, RngLike
from expectedkernels.circuits.choices import check_samples
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import Evidence, EvidenceLike, as_evidence, is_batch
from expectedkernels.circuits.marginals import Marginals
from expectedkernels.circuits.schema import Schema
from expectedkernels.compilation import answers
from expectedkernels.compilation.answers import needs_circuit
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES


class Questions:
    """A base of models: questions, by variable elimination or by a circuit.

    A model has a schema, the plan of its messages, and a way to compile it.
    """

    schema: Schema
    n_variables: Any
    messages: Any
    compile: Any

    @cached_property
    def _circuit(self) -> Circuit:
        """The circuit that questions are put to."""
        return self.compile()[0]

    def _read(self, evidence: Any) -> tuple[Evidence | None, bool]:
        """The rows of evidence, and whether a circuit answers them."""
        read = None if evidence is None else as_evidence(evidence, self.schema)
        n_rows = 1 if read is None else read.n_rows
        if not needs_circuit(self.messages, n_rows):
            return read, False
        tables: Any = self._circuit.shortcuts
        return read, tables is None or tables.by_units(n_rows)

    def marginals(
        self, evidence: EvidenceLike | None = None, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> Marginals:
        """The probabilities of the states of every variable, given evidence.

        By variable elimination, for one row after the other; where this takes longer than to
        compile the model, by its circuit. See `Circuit.marginals`.

        Parameters
        ----------
        evidence : mapping, array of one or more rows with NaN, data frame, or list of weights
            As for `Circuit.condition`. Default: none.
        max_bytes : int
            Tables that do not fit are made twice; models whose messages do not fit are refused.

        Returns
        -------
        list of arrays
            Indexed by number or name of the variables, as that of `Circuit.marginals`.

        Raises
        ------
        EvidenceError
            If the evidence is impossible.

        Examples
        --------
        >>> from expectedkernels.compilation.datasets import asia
        >>> asia().marginals({"smoke": "yes"})["lung"].round(6).tolist()
        [0.1, 0.9]
        """
        read, by_circuit = self._read(evidence)
        if by_circuit:
            return self._circuit.marginals(evidence)
        found = answers.marginals(self.messages, read, max_bytes)
        rows = found if is_batch(evidence) else [array[0] for array in found]
        return Marginals(rows, self.schema)

    def map(self, X: EvidenceLike, as_frame: bool | None = None) -> Array:
        """The rows of X with missing entries set to their most probable joint values.

        By variable elimination, or for many rows by a circuit; see `Circuit.map`.

        Parameters
        ----------
        X : array of one or more rows with NaN, data frame, or mapping
        as_frame : bool, optional
            Whether to return a data frame of pandas with names and labels, or an array of codes
            in the shape of X. Default: a frame if the states have labels, or if X is a frame.

        Returns
        -------
        array or data frame

        Examples
        --------
        >>> from expectedkernels.compilation.datasets import asia
        >>> asia().map({"dysp": "yes"})["bronc"].tolist()
        ['yes']
        """
        read, by_circuit = self._read(X)
        if by_circuit or read is None:
            return self._circuit.map(X, as_frame)
        found = answers.most_probable(self.messages, read, DEFAULT_MAX_BYTES)
        return self.schema.labelled(found if is_batch(X) else found[0], X, as_frame)

    def sample(
        self,
        n: int,
        rng: RngLike = None,
        evidence: EvidenceLike | None = None,
        as_frame: bool = False,
    ) -> Array:
        """Independent samples of the normalised model, given evidence.

        By variable elimination, or for many rows by a circuit; see `Circuit.sample`.

        Parameters
        ----------
        n : int
        rng : int, Generator or None
        evidence : mapping, array of one or more rows with NaN, or data frame, optional
        as_frame : bool

        Returns
        -------
        array or data frame

        Examples
        --------
        >>> from expectedkernels.compilation.datasets import asia
        >>> asia().sample(5, rng=0).shape
        (5, 8)
        """
        check_samples(n)
        read, by_circuit = self._read(evidence)
        if by_circuit:
            return self._circuit.sample(n, rng, evidence, as_frame)
        drawn = answers.samples(self.messages, read, n, rng, DEFAULT_MAX_BYTES)
        if not as_frame:
            return drawn if is_batch(evidence) else drawn[0]
        index = [range(size) for size in drawn.shape[:2]] if is_batch(evidence) else None
        return self.schema.frame(drawn.reshape(-1, self.n_variables), index)

    def log_likelihood(self, X: EvidenceLike) -> Array:
        """The log-probability of every row of X, NaN entries summed out, shape (n,).

        The model is compiled when it is first asked, and normalised; `log_score` is the sum of
        logs of factors as they are.

        Parameters
        ----------
        X : array of shape (n, variables), data frame, or list of arrays

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> fg = ek.FactorGraph([2, 2], [ek.Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
        >>> import numpy as np
        >>> np.exp(fg.log_likelihood([[1, 1], [0, np.nan]])).round(12).tolist()
        [0.4, 0.3]
        """
        return self._circuit.log_likelihood(X)

    def log_partition(
        self, evidence: EvidenceLike | None = None, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> float | Array:
        """The log of the sum over all states, or over those that evidence allows.

        By variable elimination, without a circuit.

        Parameters
        ----------
        evidence, max_bytes : see `marginals`

        Returns
        -------
        float, or array of shape (n,) for n rows of evidence
            -inf given impossible evidence.

        Raises
        ------
        PropertyError
            If the factors multiply to zero everywhere.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> fg = ek.FactorGraph([2, 2], [ek.Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
        >>> round(fg.log_partition(), 6), round(fg.log_partition({0: 1}), 6)
        (2.302585, 1.94591)
        """
        read = None if evidence is None else as_evidence(evidence, self.schema)
        found = answers.log_partitions(self.messages, read, max_bytes)
        return found if is_batch(evidence) else float(found[0])
