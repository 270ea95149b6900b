"""Additive attention, which CAAN and SMAN share: logits that are weighted sums of tanh."""

from jaxtyping import Float
from torch import Tensor, nn


def tanh_logits(doubled: Float[Tensor, "*batch D"], weight: Float[Tensor, " D"]) -> Float[Tensor, "*batch"]:
    """weight . tanh(doubled / 2) and a constant more, which a softmax does not see.

    tanh(x) = 2 sigmoid(2x) - 1, and on CPU torch's sigmoid takes a sixth of the time of its tanh.
    """
    return doubled.sigmoid() @ (2 * weight)


class AdditiveAttention(nn.Module):
    """Weights of one attention step as SMAN has them: W of the keys, Wq of the query, w of the logits."""

    def __init__(self, key_width: int, width: int) -> None:
        super().__init__()
        self.keys = nn.Linear(key_width, width)
        self.query = nn.Linear(width, width)
        self.weight = nn.Linear(width, 1, bias=False)

    def inside(self, keys: Float[Tensor, "*keys N D"], query: Float[Tensor, "*queries D"]) -> Tensor:
        """w . tanh(key * tanh(Wq query)) of every key, up to a constant; the first axes are broadcast."""
        doubled = 2 * self.query(query).tanh()
        return tanh_logits(keys * doubled.unsqueeze(-2), self.weight.weight[0])

    def outside(self, keys: Float[Tensor, "Q N D"], queries: Float[Tensor, "Q K D"]) -> Float[Tensor, "Q K N"]:
        """w . (tanh(key) * tanh(Wq query)) of every key and query of a batch."""
        weighed: Tensor = self.query(queries).tanh() * self.weight.weight[0]
        return weighed @ keys.tanh().mT
