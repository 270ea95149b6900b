"""Products by oneDNN are those of PyTorch, and are left to it wherever oneDNN does not compute them."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from models.rerankers import products
from models.rerankers.products import Linear, product_of_rows, published_products

ROWS, WIDTH, OUT = 300, 96, 64
assert ROWS * WIDTH * OUT >= products._FEWEST


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the rows that oneDNN was asked to multiply."""
    if products.ONEDNN_PRODUCT is None or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        pytest.skip("PyTorch has no oneDNN here")
    found: list[tuple[int, ...]] = []
    real = products.ONEDNN_PRODUCT

    def ask(rows: Tensor, *further: Any) -> Tensor:
        found.append(tuple(rows.shape))
        product: Tensor = real(rows, *further)
        return product

    monkeypatch.setattr(products, "ONEDNN_PRODUCT", ask)
    return found


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize("shape", [(ROWS, WIDTH), (3, 100, WIDTH), (2, 3, 50, WIDTH)])
@pytest.mark.parametrize("biased", [True, False])
def test_the_product_is_pytorchs(asked: list[tuple[int, ...]], shape: tuple[int, ...], biased: bool) -> None:
    rows, matrix, bias = drawn(*shape), drawn(OUT, WIDTH), drawn(OUT) if biased else None
    torch.testing.assert_close(product_of_rows(rows, matrix, bias), linear(rows, matrix, bias), rtol=1e-5, atol=1e-4)
    assert asked == [shape]


def test_nan_and_infinities_go_through(asked: list[tuple[int, ...]]) -> None:
    rows, matrix = drawn(ROWS, WIDTH), drawn(OUT, WIDTH)
    rows[1, 2], rows[5, 0] = torch.nan, torch.inf
    found, expected = product_of_rows(rows, matrix), linear(rows, matrix)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4, equal_nan=True)
    assert asked


@pytest.mark.parametrize(
    ("rows", "matrix"),
    [
        (drawn(3, WIDTH), drawn(OUT, WIDTH)),
        (drawn(0, WIDTH), drawn(OUT, WIDTH)),
        (drawn(ROWS, WIDTH).double(), drawn(OUT, WIDTH).double()),
        (drawn(ROWS, WIDTH).bfloat16(), drawn(OUT, WIDTH).bfloat16()),
        (drawn(ROWS, 2 * WIDTH)[:, ::2], drawn(OUT, WIDTH)),
        (drawn(ROWS, WIDTH), drawn(WIDTH, OUT).T),
        (drawn(ROWS, WIDTH), drawn(OUT, WIDTH).requires_grad_()),
    ],
    ids=["few", "none", "float64", "bfloat16", "strided rows", "strided matrix", "with gradient"],
)
def test_what_does_not_suit_onednn_is_pytorchs(asked: list[tuple[int, ...]], rows: Tensor, matrix: Tensor) -> None:
    assert product_of_rows(rows, matrix).equal(linear(rows, matrix))
    assert not asked


def test_a_layer_learns_as_pytorchs_does(asked: list[tuple[int, ...]]) -> None:
    layer, rows = Linear(WIDTH, OUT), drawn(ROWS, WIDTH)
    layer(rows).square().sum().backward()
    assert layer.weight.grad is not None
    expected = torch.autograd.grad(linear(rows, layer.weight, layer.bias).square().sum(), layer.weight)[0]
    assert layer.weight.grad.equal(expected)
    assert not asked


def test_a_bias_alone_may_learn(asked: list[tuple[int, ...]]) -> None:
    layer = Linear(WIDTH, OUT)
    layer.weight.requires_grad_(False)
    layer(drawn(ROWS, WIDTH)).sum().backward()
    assert layer.bias.grad is not None
    assert layer.bias.grad.equal(torch.full((OUT,), float(ROWS)))
    assert not asked


def test_transformed_functions_are_left_alone(asked: list[tuple[int, ...]]) -> None:
    rows, matrix = drawn(2, ROWS, WIDTH), drawn(OUT, WIDTH)
    found = torch.func.vmap(lambda own: product_of_rows(own, matrix))(rows)
    torch.testing.assert_close(found, linear(rows, matrix), rtol=1e-5, atol=1e-4)
    assert not asked


def test_published_code_multiplies_as_it_did(asked: list[tuple[int, ...]]) -> None:
    rows, matrix = drawn(ROWS, WIDTH), drawn(OUT, WIDTH)
    with published_products():
        assert product_of_rows(rows, matrix).equal(linear(rows, matrix))
        assert not asked
    product_of_rows(rows, matrix)
    assert asked
