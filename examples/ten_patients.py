"""Ten patients that stand for all: rows of data chosen by their discrepancy from a model.

A doctor wants to see ten patients of a lung clinic, not a thousand, and they should show how the
clinic is: not the ten most usual, which are all alike, and not ten at random. They are chosen among
real rows, one after the other, so that their exact discrepancy from the model becomes small. The
picture compares how often every finding occurs.
"""

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek

FINDINGS = ["asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"]


def main() -> None:
    clinic = ek.asia()
    patients = clinic.sample(1000, rng=0)
    ten = ek.herd(clinic, 10, candidates=patients)
    circuit = clinic.compile()[0]
    others = [float(ek.mmd(circuit, circuit.sample(10, rng=seed))) for seed in range(50)]
    print(ten.to_frame().to_string(index=False))
    print(f"\ndiscrepancy of these ten {ten.mmd:.3f}, of ten at random {np.mean(others):.3f}")

    share = ten.weights @ (ten.X == 0)  # the first state is yes
    exact = np.array([table[0] for table in clinic.marginals()])
    print(f"\n{'share of yes':16}{'clinic':>8}{'the ten':>9}")
    for name, all_of_them, few in zip(FINDINGS, exact, share, strict=True):
        print(f"{name:16}{all_of_them:8.2f}{few:9.2f}")
    places = np.arange(len(FINDINGS))
    figure, axes = plt.subplots()
    axes.bar(places - 0.2, exact, 0.4, label="the clinic")
    axes.bar(places + 0.2, share, 0.4, label="the ten")
    axes.set_xticks(places, FINDINGS)
    axes.set_ylabel("share of yes")
    axes.legend()
    figure.savefig("ten_patients.png")
    plt.close(figure)


if __name__ == "__main__":
    main()
