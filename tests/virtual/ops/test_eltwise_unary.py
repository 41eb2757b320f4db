# SPDX-License-Identifier: Apache-2.0
"""Every unary op against torch in float32, over shapes, layouts, shardings and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops.eltwise import apply_activation
from tt_cnn.virtual.ops.eltwise.unary import Unary
from tt_cnn.virtual.ops.operation import OPERATIONS

PCC = {"bfloat16": 0.9999, "bfloat8_b": 0.999, "float32": 0.9999}


@dataclass(frozen=True)
class Case:
    reference: Callable[[torch.Tensor], torch.Tensor]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    low: float = -3.0
    high: float = 3.0


def _test(function: Callable[[torch.Tensor], torch.Tensor]) -> Case:
    return Case(lambda x: function(x).float())


def _positive(function: Callable[[torch.Tensor], torch.Tensor], **options: Any) -> Case:
    return Case(function, low=0.3, high=4.0, **options)


CASES: dict[str, Case] = {
    "abs": Case(torch.abs),
    "acos": Case(torch.acos, low=-0.95, high=0.95),
    "acosh": Case(torch.acosh, low=1.2, high=6.0),
    "asin": Case(torch.asin, low=-0.95, high=0.95),
    "asinh": Case(torch.asinh),
    "atan": Case(torch.atan),
    "atanh": Case(torch.atanh, low=-0.9, high=0.9),
    "cbrt": Case(lambda x: x.sign() * x.abs() ** (1 / 3)),
    "ceil": Case(torch.ceil),
    "celu": Case(lambda x: F.celu(x, 1.5), kwargs={"alpha": 1.5}),
    "clamp": Case(lambda x: x.clamp(-0.5, 1.0), args=(-0.5, 1.0)),
    "clip": Case(lambda x: x.clamp(max=1.0), kwargs={"max": 1.0}),
    "cos": Case(torch.cos),
    "cosh": Case(torch.cosh),
    "deg2rad": Case(torch.deg2rad, low=-180.0, high=180.0),
    "digamma": Case(torch.digamma, low=1.0, high=6.0),
    "elu": Case(lambda x: F.elu(x, 0.7), kwargs={"alpha": 0.7}),
    "eqz": _test(lambda x: x == 0),
    "erf": Case(torch.erf),
    "erfc": Case(torch.erfc, low=-2.0, high=1.5),
    "erfinv": Case(torch.erfinv, low=-0.9, high=0.9),
    "exp": Case(torch.exp),
    "exp2": Case(torch.exp2),
    "expm1": Case(torch.expm1),
    "fill": Case(lambda x: torch.full_like(x, 2.5), args=(2.5,)),
    "floor": Case(torch.floor),
    "frac": Case(torch.frac),
    "gelu": Case(F.gelu),
    "gez": _test(lambda x: x >= 0),
    "gtz": _test(lambda x: x > 0),
    "hardmish": Case(lambda x: x * (0.5 * x + 1).clamp(0, 1)),
    "hardshrink": Case(lambda x: F.hardshrink(x, 0.75), kwargs={"lambd": 0.75}),
    "hardsigmoid": Case(F.hardsigmoid),
    "hardswish": Case(F.hardswish),
    "hardtanh": Case(lambda x: F.hardtanh(x, -0.5, 2.0), kwargs={"min_val": -0.5, "max_val": 2.0}),
    "heaviside": Case(lambda x: torch.heaviside(x, torch.tensor(0.5)), args=(0.5,)),
    "i0": Case(torch.special.i0),
    "i1": Case(torch.special.i1),
    "identity": Case(lambda x: x),
    "isfinite": _test(torch.isfinite),
    "isinf": _test(torch.isinf),
    "isnan": _test(torch.isnan),
    "isneginf": _test(torch.isneginf),
    "isposinf": _test(torch.isposinf),
    "leaky_relu": Case(lambda x: F.leaky_relu(x, 0.1), args=(0.1,)),
    "lez": _test(lambda x: x <= 0),
    "lgamma": Case(torch.lgamma, low=1.5, high=6.0),
    "log": _positive(torch.log),
    "log10": _positive(torch.log10),
    "log1p": _positive(torch.log1p),
    "log2": _positive(torch.log2),
    "log_sigmoid": Case(F.logsigmoid),
    "logical_not": _test(lambda x: x == 0),
    "logit": Case(torch.logit, low=0.05, high=0.95),
    "ltz": _test(lambda x: x < 0),
    "mish": Case(F.mish),
    "neg": Case(torch.neg),
    "nez": _test(lambda x: x != 0),
    "rad2deg": Case(torch.rad2deg),
    "rdiv": _positive(lambda x: 2.0 / x, args=(2.0,)),
    "reciprocal": _positive(torch.reciprocal),
    "relu": Case(F.relu),
    "relu6": Case(F.relu6, high=8.0),
    "relu_max": Case(lambda x: x.clamp(0, 2.0), args=(2.0,)),
    "relu_min": Case(lambda x: x.clamp(min=0.5), args=(0.5,)),
    "round": Case(torch.round),
    "rpow": Case(lambda x: 2.0**x, args=(2.0,)),
    "rsqrt": _positive(torch.rsqrt),
    "selu": Case(F.selu),
    "sigmoid": Case(torch.sigmoid),
    "sigmoid_accurate": Case(torch.sigmoid),
    "sign": Case(torch.sign),
    "signbit": _test(torch.signbit),
    "silu": Case(F.silu),
    "sin": Case(torch.sin),
    "sinh": Case(torch.sinh),
    "softplus": Case(F.softplus),
    "softshrink": Case(lambda x: F.softshrink(x, 0.75), kwargs={"lambd": 0.75}),
    "softsign": Case(F.softsign),
    "sqrt": _positive(torch.sqrt),
    "square": Case(torch.square),
    "swish": Case(F.silu),
    "tan": Case(torch.tan, low=-1.2, high=1.2),
    "tanh": Case(torch.tanh),
    "tanhshrink": Case(F.tanhshrink),
    "threshold": Case(lambda x: F.threshold(x, 0.5, -1.0), args=(0.5, -1.0)),
    "trunc": Case(torch.trunc),
    "xielu": Case(lambda x: torch.where(x > 0, 0.8 * x * x, 0.8 * (torch.expm1(x.clamp(max=-1e-6)) - x)) + 0.5 * x),
    "bitwise_not": Case(lambda x: ~x),
}
NOT_PLAIN = {"unary_chain", "logical_not_"}
INTEGER_ONLY = {"bitwise_not"}


@pytest.fixture(scope="module", params=["device", "native"])
def card(request: pytest.FixtureRequest) -> Iterator[Any]:
    device = ttnn.open_device(device_id=0, numerics=request.param)
    yield device
    ttnn.close_device(device)


def pcc(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.double().flatten(), expected.double().flatten()
    if torch.allclose(found, expected, rtol=1e-2, atol=1e-6) or found.numel() < 3:
        return 1.0
    return float(torch.corrcoef(torch.stack([found, expected]))[0, 1])


@st.composite
def tensors(draw: st.DrawFn) -> tuple[tuple[int, ...], str, Any, Any]:
    """Shape, dtype name, layout and memory config of a small tensor; block formats in whole blocks of tiles.

    (A kernel also works on a tile's padding, where the padding zeros of some ops answer inf and share an exponent.)
    """
    dtype = draw(st.sampled_from(["bfloat16", "bfloat16", "bfloat8_b", "float32"]))
    tiled = dtype == "bfloat8_b" or draw(st.booleans())
    layout = ttnn.TILE_LAYOUT if tiled else ttnn.ROW_MAJOR_LAYOUT
    if draw(st.booleans()):
        rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        shape: tuple[int, ...] = (1, 1, 32 * rows, 32 * columns)
        kind = draw(st.sampled_from(["HEIGHT", "WIDTH", "BLOCK"]))
        grid = {"HEIGHT": (1, rows), "WIDTH": (columns, 1), "BLOCK": (columns, rows)}[kind]
        config = ttnn.create_sharded_memory_config(shape, ttnn.CoreGrid(x=grid[0], y=grid[1]), ttnn.ShardStrategy[kind])
        return shape, dtype, layout, config
    config = draw(st.sampled_from([ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG]))
    lead = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    height, width = draw(st.integers(1, 70)), draw(st.integers(8, 70))
    if dtype == "bfloat8_b":
        height, width = 32, 64
    return (*lead, height, width), dtype, layout, config


def test_every_unary_op_has_a_case() -> None:
    ops = {name for name, op in OPERATIONS.items() if isinstance(op, Unary)}
    assert ops - NOT_PLAIN == CASES.keys()


@pytest.mark.parametrize("name", sorted(CASES.keys() - INTEGER_ONLY))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=tensors(), seed=st.integers(0, 2**31))
def test_agrees_with_torch(card: Any, name: str, made: Any, seed: int) -> None:
    case, (shape, dtype, layout, config) = CASES[name], made
    if name == "lgamma" and dtype == "bfloat8_b":
        dtype = "bfloat16"
    values = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * (case.high - case.low) + case.low
    x: Any = ttnn.from_torch(values, dtype=getattr(ttnn, dtype), layout=layout, device=card, memory_config=config)
    out = getattr(ttnn, name)(x, *case.args, **case.kwargs)
    assert (out.shape, out.dtype, out.layout, out.memory_config()) == (x.shape, x.dtype, layout, config)
    held = ttnn.to_torch(x).float()
    assert pcc(ttnn.to_torch(out).float(), case.reference(held)) >= PCC[dtype]


@pytest.mark.parametrize("name", ["relu", "abs", "neg", "square", "nez", "logical_not", "gtz", "bitwise_not"])
def test_integers_are_exact(card: Any, name: str) -> None:
    values = torch.randint(-1000, 1000, (1, 1, 32, 48), dtype=torch.int32)
    x: Any = ttnn.from_torch(values, dtype=ttnn.int32, layout=ttnn.TILE_LAYOUT, device=card)
    expected = CASES[name].reference(values).to(torch.int32)
    assert torch.equal(ttnn.to_torch(getattr(ttnn, name)(x)), expected)


def test_bits_of_floats_have_no_numbers(card: Any) -> None:
    x: Any = ttnn.from_torch(torch.ones(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    with pytest.raises(RuntimeError, match="bitwise_not has no numbers for floats"):
        ttnn.to_torch(ttnn.bitwise_not(x))


def test_the_output_tensor_is_written_and_returned(card: Any) -> None:
    values = torch.randn(1, 1, 64, 64)
    x: Any = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    target: Any = ttnn.from_torch(torch.zeros(1, 1, 64, 64), dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=card)
    address = target.buffer_address()
    out = ttnn.silu(x, output_tensor=target)
    assert out is target and out.buffer_address() == address and out.dtype is ttnn.bfloat8_b
    assert pcc(ttnn.to_torch(target), F.silu(values)) >= PCC["bfloat8_b"]


def test_an_op_may_write_over_its_input(card: Any) -> None:
    values = torch.randn(1, 1, 64, 64)
    x: Any = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    ttnn.relu(x, output_tensor=x)
    assert torch.equal(ttnn.to_torch(x).float(), values.bfloat16().float().relu())
    ttnn.logical_not_(x)
    assert torch.equal(ttnn.to_torch(x).float(), (values.bfloat16() <= 0).float())


def test_a_chain_equals_its_ops(card: Any) -> None:
    x: Any = ttnn.from_torch(torch.randn(1, 1, 64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    chained = ttnn.unary_chain(
        x, [ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), ttnn.UnaryWithParam(ttnn.UnaryOpType.SQUARE)]
    )
    assert torch.equal(ttnn.to_torch(chained), ttnn.to_torch(ttnn.square(ttnn.relu(x))))


@pytest.mark.parametrize(
    ("activation", "reference"),
    [
        ((ttnn.UnaryOpType.RELU, ()), F.relu),
        ((ttnn.UnaryOpType.LEAKY_RELU, (0.1,)), lambda x: F.leaky_relu(x, 0.1)),
        ((ttnn.UnaryOpType.SILU, ()), F.silu),
        ((ttnn.UnaryOpType.MISH, (0.0,)), F.mish),
        ((ttnn.UnaryOpType.HARDMISH, ()), CASES["hardmish"].reference),
        ((ttnn.UnaryOpType.SIGMOID, ()), torch.sigmoid),
        ((ttnn.UnaryOpType.GELU, (0.0,)), F.gelu),
        ((ttnn.UnaryOpType.RELU6, ()), F.relu6),
        ((ttnn.UnaryOpType.TANH, ()), torch.tanh),
        ((ttnn.UnaryOpType.EXP, (1.0,)), torch.exp),
    ],
)
def test_fused_activations_agree_with_torch(card: Any, activation: Any, reference: Any) -> None:
    x = torch.randn(64, 64).bfloat16().float()
    assert pcc(apply_activation(card.engine, x, activation), reference(x)) >= 0.999


@pytest.mark.parametrize("source", ["bfloat16", "float32", "bfloat8_b"])
@pytest.mark.parametrize("target", ["bfloat16", "float32", "bfloat8_b", "int32"])
def test_typecast(card: Any, source: str, target: str) -> None:
    values = torch.randn(1, 1, 64, 64) * 40
    x: Any = ttnn.from_torch(values, dtype=getattr(ttnn, source), layout=ttnn.TILE_LAYOUT, device=card)
    out = ttnn.typecast(x, getattr(ttnn, target))
    held = ttnn.to_torch(x).float()
    expected = held.trunc() if target == "int32" else held
    assert out.dtype is getattr(ttnn, target)
    assert pcc(ttnn.to_torch(out).float(), expected) >= 0.999


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: ttnn.silu(i), "Unary: UnaryOpType::SILU does not support integer input dtype DataType::INT32"),
        (lambda x, i: ttnn.clamp(x), "Only one of 'min' or 'max' can be None"),
        (lambda x, i: ttnn.relu(x, output_tensor=i), "Integer and float dtypes cannot be mixed"),
    ],
)
def test_refusals_have_the_library_s_words(card: Any, call: Any, message: str) -> None:
    x: Any = ttnn.from_torch(torch.zeros(1, 1, 32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    i: Any = ttnn.from_torch(torch.zeros(1, 1, 32, 32), dtype=ttnn.int32, layout=ttnn.TILE_LAYOUT, device=card)
    with pytest.raises(RuntimeError, match=message):
        call(x, i)


def test_wrong_arguments_are_type_errors(card: Any) -> None:
    x: Any = ttnn.from_torch(torch.zeros(1, 1, 32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    for call in (
        lambda: ttnn.relu(x, speed=1),
        lambda: ttnn.relu(1.0),
        lambda: ttnn.leaky_relu(x),
        lambda: ttnn.leaky_relu(x, "steep"),
    ):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            call()
