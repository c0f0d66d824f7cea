"""Verdict: the answer to a yes-or-no question about a structure, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """True, false or undecided, and why.

    Attributes
    ----------
    holds : bool or None
        The answer; None if it could not be decided.
    reason : str
        Why, and where.

    Examples
    --------
    >>> verdict = Verdict(False, "sum unit 3 has inputs over different variables")
    >>> bool(verdict)
    False
    >>> verdict
    no: sum unit 3 has inputs over different variables
    """

    holds: bool | None
    reason: str

    def __bool__(self) -> bool:
        return self.holds is True

    def __repr__(self) -> str:
        word = {True: "yes", False: "no", None: "undecided"}[self.holds]
        return f"{word}: {self.reason}"
