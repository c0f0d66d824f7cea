"""Is my chain done? The Stein discrepancy tells, and needs no exact answer to compare with.

Three Gibbs chains of a grid: one whose samples are single updates of single variables, one that
is thinned, one that forgets a factor of the model by mistake. The discrepancy of the samples
says how far they are from the target, and a test how likely draws from the target would
be as far. For models that are small enough to be compiled, the discrepancy of the two
distributions themselves is exact: what the test saw is the mistake, and not bad luck.
"""

import expectedkernels as ek

N = 500


def main() -> None:
    target = ek.ising_grid(3, 3, rng=4)
    mistaken = ek.FactorGraph(target.cardinalities, target.factors[1:])  # a lost edge
    kernel = ek.ExpHamming()
    chains = {
        "sticky: every update": ek.gibbs(target, N, rng=0),
        "thinned: every 200th": ek.gibbs(target, N, burn_in=1000, thin=200, rng=0),
        "thinned, a factor lost": ek.gibbs(mistaken, N, burn_in=1000, thin=200, rng=0),
    }
    print(f"{'chain':28}{'KDSD':>10}{'unbiased':>10}{'p-value':>10}   drawn from the target?")
    for what, X in chains.items():
        found = ek.kdsd(X, target, kernel)
        test = ek.kdsd_test(X, target, kernel, rng=0)
        verdict = "no" if test.p_value < 0.01 else "nothing speaks against it"
        print(f"{what:28}{found:10.3f}{test.statistic:10.3f}{test.p_value:10.3f}   {verdict}")

    # neighbours in the sticky chain are hardly independent: signs that change more rarely allow
    # for that, and then ask whether the chain, dependent as it is, is in the right place
    careful = ek.kdsd_test(chains["sticky: every update"], target, kernel, change=0.01, rng=0)
    print(f"\nThe sticky chain, if dependence is allowed for: p-value {careful.p_value:.3f}")

    p, _ = target.compile()
    q, _ = mistaken.compile(p.vtree)
    print("\nThe exact discrepancy from the target, no samples needed")
    print(f"{'the target itself':28}{ek.kdsd(p, p, kernel):z10.3f}")
    print(f"{'the model with a factor lost':28}{ek.kdsd(q, p, kernel):z10.3f}")


if __name__ == "__main__":
    main()
