"""Names of models -> classes with their configs: the one place that knows the names."""

from collections.abc import Callable, Mapping

from models.base import Reranker
from models.bfan import Bfan, BfanConfig
from models.caan import Caan, CaanConfig
from models.encoders import EncoderConfig
from models.scan import Scan, ScanConfig
from models.sman import Sman, SmanConfig
from models.summax import SumMax, SumMaxConfig

Builder = Callable[[EncoderConfig], Reranker]


def _scan(**options: object) -> Builder:
    return lambda encoders: Scan(ScanConfig(**options), encoders)  # type: ignore[arg-type]


RERANKERS: Mapping[str, Builder] = {
    "scan-t2i-lse": _scan(direction="t2i", pooling="LogSumExp", lambda_softmax=9.0, lambda_lse=6.0),
    "scan-t2i-avg": _scan(direction="t2i", pooling="Mean", lambda_softmax=9.0),
    "scan-i2t-lse": _scan(direction="i2t", pooling="LogSumExp", lambda_softmax=4.0, lambda_lse=5.0),
    "scan-i2t-avg": _scan(direction="i2t", pooling="Mean", lambda_softmax=4.0),
    "summax-t2i": lambda encoders: SumMax(SumMaxConfig(direction="t2i"), encoders),
    "summax-i2t": lambda encoders: SumMax(SumMaxConfig(direction="i2t"), encoders),
    "bfan-prob": lambda encoders: Bfan(BfanConfig(focal="prob"), encoders),
    "bfan-equal": lambda encoders: Bfan(BfanConfig(focal="equal"), encoders),
    "caan": lambda encoders: Caan(CaanConfig(), encoders),
    "sman": lambda encoders: Sman(SmanConfig(), encoders),
}


class UnknownModel(ValueError):
    """A name that no model goes by."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no model is called {name!r}; known: {', '.join(sorted(RERANKERS))}")


def build(name: str, encoders: EncoderConfig) -> Reranker:
    """A new model by its name, with fresh weights; UnknownModel names the known ones."""
    if name not in RERANKERS:
        raise UnknownModel(name)
    return RERANKERS[name](encoders)
