"""Where the regression data sets come from, and how the paper's regressors were set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A raw file, what its columns are, and the regressor that was selected for it.

    Attributes
    ----------
    name, file : str
    target : str
        The column to predict.
    discrete, continuous : tuple of str
        The columns that are categories, and those that are cut into bins.
    where : str
        Where the file can be found.
    sha256 : mapping
        The SHA-256 sums of bits (x) and targets (y) of the splits.
    C, epsilon, gamma : float
        The parameters of the support vector regressor, as the paper's grid search selected them.
    openml : int or None
        Its number on OpenML.
    truncate : bool
        Whether targets lose their digits after the decimal point.
    fit_rows : int or None
        Fit the regressor to so many of the first training rows. None: all.
    unit : float
        What errors are given in multiples of.
    """

    name: str
    file: str
    target: str
    discrete: tuple[str, ...]
    continuous: tuple[str, ...]
    where: str
    sha256: Mapping[str, str]
    C: float
    epsilon: float
    gamma: float
    openml: int | None = None
    truncate: bool = False
    fit_rows: int | None = None
    unit: float = 1.0

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are used, the target last."""
        return (*self.discrete, *self.continuous, self.target)


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="abalone",
            file="abalone.data",
            target="Rings",
            discrete=("Sex",),
            continuous=(
                "Length",
                "Diameter",
                "Height",
                "Whole weight",
                "Shucked weight",
                "Viscera weight",
                "Shell weight",
            ),
            where="the UCI Machine Learning Repository (abalone)",
            sha256={
                "train_x.csv": "3378b828f9a1de5412f7c3f3a31c569fadff90df10e64037b22a4597623509e4",
                "train_y.csv": "103e011db82756e5b7fb55ae75f12e879077bc2128a3a859c225082be012845c",
                "valid_x.csv": "438ceb91581342bb5341ca0b9dbaa471d7d3a62fcd58ef9f8eef92908fb6b7f7",
                "valid_y.csv": "e2c4149ed60678dc4024f0cb45aa2c35e7399122c2341565387e1631e476e1bc",
                "test_x.csv": "e7c05fda49f5827670cd7ab87ca97e79de3e5f1f86f7e69d8d1d5c8289e832f9",
                "test_y.csv": "3179e2b9a94933fb4582bb261d358a391697bd8663caa68edc2242d93577ea23",
            },
            C=1000.0,
            epsilon=1.0,
            gamma=0.005,
            openml=183,
        ),
        Source(
            name="delta-ailerons",
            file="delta_ailerons.data",
            target="Sa",
            discrete=(),
            continuous=("RollRate", "PitchRate", "currPitch", "currRoll", "diffRollRate"),
            where="the regression data sets of Luis Torgo (delta ailerons)",
            sha256={
                "train_x.csv": "fcba0719840eda1ecfbda947cc2d527e5cc5895f8490edb376b6a2729e67f219",
                "train_y.csv": "fe3c6ccc28140dd617e35205394c779d35d3f9df01ef53fed060777ae1626418",
                "valid_x.csv": "ef5bea91217041e342c2889e33bafed5237d0bd5e79de8ff4aca5dd4d69d67ac",
                "valid_y.csv": "3f29313c13b40b7c75358a7ed96e305058e4bfaedd23ccc73051c10cfe5bc41c",
                "test_x.csv": "e9068db61220f91f52faadecd26ed0149235c70293df64d32c0fdfed761f97f0",
                "test_y.csv": "907a7cfdbc1e854a2297989eed900d7af2f26ad171c146189db7f0f84cc2c481",
            },
            C=10.0,
            epsilon=0.0001,
            gamma=0.0001,
            unit=0.0001,
        ),
        Source(
            name="insurance",
            file="insurance.csv",
            target="charges",
            discrete=("children", "smoker", "region", "sex"),
            continuous=("age", "bmi"),
            where="Kaggle (medical cost personal data sets, insurance.csv)",
            sha256={
                "train_x.csv": "acb4ee9ecc23e7960da466513df5405c8b7382da41dd706016ba0d27175a7067",
                "train_y.csv": "d8cb3b88403bf7a0e8998b447410099399567c7b011460fe9bd5ab1c9f5e8a47",
                "valid_x.csv": "0f187ffab796dd30361f1677a6379558a852a0beee5627dae7017f213a89e45e",
                "valid_y.csv": "f7d36af56708192882d518f74a7db93225f966bb778fafd4b26c5f93b556969d",
                "test_x.csv": "dd7127ad21bbc07c67ddb565d85798f6e5aabc7ad3a3b2abec956c651546a97c",
                "test_y.csv": "2c8e386258ada0e0d92ef03b4736cb966b13abaf974ca588724c5d57e4f15131",
            },
            C=1000.0,
            epsilon=1.0,
            gamma=0.1,
            openml=46931,
            truncate=True,
            unit=1000.0,
        ),
        Source(
            name="elevators",
            file="elevators.data",
            target="Goal",
            discrete=(),
            continuous=(
                "climbRate",
                "Sgz",
                "p",
                "q",
                "curRoll",
                "absRoll",
                "diffClb",
                "diffRollRate",
                "diffDiffClb",
                "SaTime1",
                "SaTime2",
                "SaTime3",
                "SaTime4",
                "diffSaTime1",
                "diffSaTime2",
                "diffSaTime3",
                "diffSaTime4",
                "Sa",
            ),
            where="the regression data sets of Luis Torgo (elevators)",
            sha256={
                "train_x.csv": "77a18334096d22e734108379618779d6bf0a241dc02da2061d46432cbbfbd649",
                "train_y.csv": "8fb93b90af803c0b7d61f43243e010d35877aee7142c5fe60ef6c7225d643389",
                "valid_x.csv": "10b4cb76fc79e2aeb8f69644ef6f4a96edb3cc48ab46b91f1087aa66a389a075",
                "valid_y.csv": "be2bd7c1bd6410de5a5e52896ace71149feb80f3367c8d866445a8195c6e5597",
                "test_x.csv": "ff8dc1c63629144a4bebafe0d61377f6eba2ee0420c8821ba6733bcbf335aec1",
                "test_y.csv": "e72885fbd26b9e12c147758819e118afb5f42849d7fdc16de5488fd99b949f68",
            },
            C=1000.0,
            epsilon=0.001,
            gamma=0.0001,
            openml=216,
            fit_rows=3000,
            unit=0.001,
        ),
    )
}
