# SPDX-License-Identifier: Apache-2.0
"""Comparison mode: every call beside its golden function."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.builder import Conv2dConfiguration, ConvTranspose2dConfiguration, TtConv2d, TtConvTranspose2d
from tt_cnn.testing import op_report
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import layer
from tt_cnn.virtual.ops.eltwise.binary import Binary
from tt_cnn.virtual.ops.eltwise.unary import Unary
from tt_cnn.virtual.ops.operation import OPERATIONS, Operation
from tt_cnn.virtual.references import GOLDEN


@pytest.fixture
def comparing() -> Iterator[None]:
    with ttnn.manage_config("enable_comparison_mode", True):
        yield
    assert Operation.runner is None


@pytest.fixture
def put(card: Any) -> Callable[..., Any]:
    torch.manual_seed(0)

    def put(*shape: int, low: float = 0.1, high: float = 0.9, **options: Any) -> Any:
        options = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, **options}
        return ttnn.from_torch(low + (high - low) * torch.rand(shape), device=card, **options)

    return put


def wide(operation: Operation) -> list[float]:
    """One number for each parameter that a unary op must be given."""
    parameters = list(inspect.signature(type(operation).arguments).parameters.values())[2:]
    return [0.5 for p in parameters if p.default is p.empty]


FLOAT_UNARY = sorted(
    name
    for name, operation in OPERATIONS.items()
    if isinstance(operation, Unary)
    and name in GOLDEN
    and name not in ("bitwise_not", "clamp", "clip", "acosh", "polygamma", "softcap", "unary_chain")
    and not name.endswith("_")
)


def test_every_unary_op_agrees_with_its_golden_function(put: Any, comparing: None) -> None:
    """acosh has no values here; those that take integers, or bounds, are elsewhere."""
    x = put(1, 1, 64, 64)
    for name in FLOAT_UNARY:
        OPERATIONS[name](x, *wide(OPERATIONS[name]))
    report = op_report()
    assert len(report.calls) >= 75
    assert [str(call) for call in report.calls if call.pcc < 0.999] == []


def test_every_binary_op_agrees_with_its_golden_function(put: Any, comparing: None) -> None:
    names = [n for n, o in OPERATIONS.items() if isinstance(o, Binary) and n in GOLDEN]
    floats = [n for n in names if not n.startswith(("bitwise", "gcd", "lcm", "prelu", "addalpha", "subalpha"))]
    for name in floats:
        OPERATIONS[name](put(1, 1, 32, 64), put(1, 1, 32, 64))
    report = op_report()
    assert len(report.calls) == len(floats) >= 40
    assert [str(call) for call in report.calls if call.pcc < 0.995] == []


def test_scalars_activations_and_rounding_are_part_of_it(put: Any, comparing: None) -> None:
    x, y = put(1, 1, 32, 64, low=-1.0), put(1, 1, 32, 64, low=-1.0)
    relu = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
    ttnn.add(x, y, activations=[relu])
    ttnn.multiply(x, 2.5, input_tensor_a_activations=[relu])
    ttnn.subtract(3.0, x)
    ttnn.divide(x, 0.3, rounding_mode="floor")
    ttnn.where(ttnn.gt(x, y), x, y)
    ttnn.gelu(x)
    assert op_report().first_below is None or op_report().first_below.pcc > 0.995


def test_products_reductions_and_normalizations(put: Any, comparing: None) -> None:
    a, b, bias = put(1, 1, 64, 96, low=-1.0), put(1, 1, 96, 32, low=-1.0), put(1, 1, 1, 32)
    ttnn.matmul(a, b)
    ttnn.matmul(b, a, transpose_a=True, transpose_b=True)
    ttnn.linear(a, b, bias=bias, activation="relu")
    ttnn.addmm(put(1, 1, 64, 32), a, b, alpha=0.5)
    for reduce in (ttnn.sum, ttnn.mean, ttnn.max, ttnn.min):
        reduce(a, dim=-1)
    ttnn.var(a, dim=-1)
    ttnn.softmax(a, dim=-1)
    ttnn.layer_norm(a, weight=put(1, 1, 1, 96), bias=put(1, 1, 1, 96), epsilon=1e-5)
    ttnn.rms_norm(a, epsilon=1e-5)
    image, row = put(2, 32, 8, 8), lambda: put(1, 32, 1, 1)
    ttnn.batch_norm(image, running_mean=row(), running_var=row(), weight=row(), bias=row())
    report = op_report()
    assert len(report.calls) == 14 and not report.without_golden
    assert [str(call) for call in report.calls if call.pcc < 0.998] == []


def test_moving_values_changes_none(put: Any, comparing: None) -> None:
    x, y = put(1, 2, 32, 64), put(1, 2, 32, 64)
    ttnn.concat([x, y], dim=3)
    ttnn.permute(x, (0, 2, 3, 1))
    ttnn.transpose(x, 1, 2)
    ttnn.reshape(x, (1, 1, 64, 64))
    ttnn.slice(x, [0, 0, 0, 0], [1, 1, 32, 32])
    ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)
    ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG)
    ttnn.pad(x, [(0, 0), (0, 0), (0, 32), (0, 0)], value=0.0)
    ttnn.split(x, 32, dim=3)
    ttnn.stack([x, y], dim=0)
    ttnn.repeat(x, (1, 1, 1, 2))
    ttnn.squeeze(x, 0)
    ttnn.unsqueeze(x, 0)
    ttnn.typecast(x, ttnn.float32)
    report = op_report()
    assert len(report.calls) >= 13 and report.first_below is None, str(report)
    assert "all" in str(report)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_with_host_weights_and_with_prepared_ones(card: Any, comparing: None, groups: int) -> None:
    """The second call gets the weights in the card's form, where torch could not use them."""
    settings = {"padding": (1, 1), "groups": groups, "math_fidelity": ttnn.MathFidelity.HiFi4}
    configuration = Conv2dConfiguration.with_random_weights(
        16, 16, 32, 64, 1, (3, 3), activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), **settings
    )
    transposed = ConvTranspose2dConfiguration.with_random_weights(8, 8, 32, 32, 2, (2, 2), stride=(2, 2), groups=groups)
    x = ttnn.from_torch(torch.randn(1, 16, 16, 32), dtype=ttnn.bfloat16, device=card)
    z = ttnn.from_torch(torch.randn(2, 8, 8, 32), dtype=ttnn.bfloat16, device=card)
    for made, given in ((TtConv2d(configuration, card, "down"), x), (TtConvTranspose2d(transposed, card, "up"), z)):
        made(given)
        made(given)
    calls = [(c.op, c.layer, c.pcc > 0.999) for c in op_report().calls if "conv" in c.op]
    assert calls == [("ttnn.conv2d", "down", True)] * 2 + [("ttnn.conv_transpose2d", "up", True)] * 2


def test_pools_and_upsampling(card: Any, comparing: None) -> None:
    x = torch.randn(1, 1, 15 * 16, 32).bfloat16()
    rows = ttnn.from_torch(x, dtype=ttnn.bfloat16, device=card)
    window = {"batch_size": 1, "input_h": 15, "input_w": 16, "channels": 32, "kernel_size": [3, 3], "stride": [2, 2]}
    ttnn.max_pool2d(rows, **window, padding=[1, 1], dilation=[1, 1], ceil_mode=True)
    ttnn.avg_pool2d(rows, **window, padding=[1, 0, 1, 0])
    image = ttnn.from_torch(x.reshape(1, 15, 16, 32), dtype=ttnn.bfloat16, device=card)
    ttnn.upsample(image, 2)
    ttnn.upsample(image, (2, 2), mode="bilinear")
    ttnn.global_avg_pool2d(image)
    report = op_report()
    compared = {c.op: c.pcc > 0.998 for c in report.calls}
    names = ("max_pool2d", "avg_pool2d", "upsample", "global_avg_pool2d")
    assert all(compared[f"ttnn.{name}"] for name in names), str(report)


# --- what it says -------------------------------------------------------------------------------------------------


def test_a_bad_call_is_named_with_its_layer_and_as_the_first(
    put: Any, comparing: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GOLDEN, "relu", lambda x, **_: x.flip(-1))
    x = put(1, 1, 32, 64, low=-1.0)
    with caplog.at_level(logging.INFO, "tt_cnn.virtual"), layer("encoder1"):
        ttnn.neg(x)
        with layer("conv2"):
            ttnn.relu(x)
            ttnn.relu(x)
    report = op_report()
    assert report.first_below is report.calls[1]
    assert (report.calls[1].op, report.calls[1].layer) == ("ttnn.relu", "encoder1.conv2")
    assert str(report).splitlines()[-1] == "► ttnn.relu of 'encoder1.conv2' is the first call under PCC 0.9999"
    passed, first, second = (record.getMessage() for record in caplog.records)
    assert passed.startswith("ttnn.neg of 'encoder1': pcc is 1.0")
    text = "ttnn.relu: Comparing output tensor 0 against CPU locally failed: pcc is "
    assert first.startswith(text) and "but should be >=0.9999\n  layer 'encoder1.conv2', largest error" in first
    assert first.endswith("; the first call below the threshold") and "the first call" not in second


def test_it_raises_where_asked_to(put: Any, comparing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GOLDEN, "relu", lambda x, **_: x.flip(-1))
    with ttnn.manage_config("comparison_mode_should_raise_exception", True):
        with pytest.raises(RuntimeError, match=r"ttnn\.relu: Comparing output tensor 0 against CPU locally failed"):
            ttnn.relu(put(1, 1, 32, 32))
        ttnn.neg(put(1, 1, 32, 32))


def test_the_threshold_is_the_users(put: Any, comparing: None) -> None:
    a, b = put(1, 1, 64, 64, dtype=ttnn.bfloat4_b), put(1, 1, 64, 64)
    ttnn.multiply(a, b, dtype=ttnn.bfloat4_b)
    assert op_report().first_below is not None
    with ttnn.manage_config("comparison_mode_pcc", 0.9):
        ttnn.multiply(a, b, dtype=ttnn.bfloat4_b)
    assert [call.passed for call in op_report().calls] == [False, True]


def test_a_golden_function_that_fails_is_told(
    put: Any, comparing: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no idea")

    monkeypatch.setitem(GOLDEN, "relu", fails)
    ttnn.relu(put(1, 1, 32, 32))
    assert caplog.messages == ["ttnn.relu: no golden output to compare with: no idea"]
    with ttnn.manage_config("comparison_mode_should_raise_exception", True), pytest.raises(ValueError, match="no idea"):
        ttnn.relu(put(1, 1, 32, 32))


def test_ops_without_a_golden_function_are_counted(put: Any, comparing: None) -> None:
    ttnn.fill_implicit_tile_padding(put(1, 1, 30, 30), 1.0)
    assert op_report().without_golden == {"fill_implicit_tile_padding": 1}
    last = str(op_report()).splitlines()[-1]
    assert last == "not compared, because there is no golden function: fill_implicit_tile_padding (1)"


def test_captured_calls_are_not_compared(
    card: Any, put: Any, comparing: None, caplog: pytest.LogCaptureFixture
) -> None:
    x = put(1, 1, 32, 32)
    ttnn.relu(x)
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    kept = [ttnn.relu(x), ttnn.relu(x)]
    ttnn.end_trace_capture(card, trace, cq_id=0)
    ttnn.execute_trace(card, trace, cq_id=0)
    assert len(op_report().calls) == 1 and len(kept) == 2
    assert sum("comparison mode is skipped" in message for message in caplog.messages) == 1


def test_in_place_ops_are_compared_with_what_was_there_before(put: Any, comparing: None) -> None:
    x, y = put(1, 1, 32, 32), put(1, 1, 32, 32)
    before = ttnn.to_torch(x).float() + ttnn.to_torch(y).float()
    ttnn.add_(x, y)
    assert op_report().first_below is None
    assert torch.allclose(ttnn.to_torch(x).float(), before, atol=0.01)


def test_a_call_on_the_second_queue_is_read_there(
    two_queues: Any, tensor: Any, toys: Any, comparing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an event between the queues, a read on the first one would be a hazard."""
    monkeypatch.setitem(GOLDEN, "test_plus", lambda x, **_: x + 1)
    host = tensor(None, 2.0)
    x = ttnn.allocate_tensor_on_device(host.spec, two_queues)
    ttnn.copy_host_to_device_tensor(host, x, cq_id=1)
    toys.plus(x, queue_id=1)
    assert [call.passed for call in op_report().calls] == [True]


def test_every_chip_is_compared(comparing: None) -> None:
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), card="n300")
    try:
        mapper = ttnn.ShardTensorToMesh(mesh, dim=0)
        values = torch.stack((torch.zeros(1, 32, 32), torch.randn(1, 32, 32)))
        x = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=mesh, mesh_mapper=mapper)
        ttnn.relu(x)
    finally:
        ttnn.close_mesh_device(mesh)
    assert [call.pcc for call in op_report().calls] == [1.0, pytest.approx(1.0)]


def test_nothing_is_compared_unless_asked_for(put: Any) -> None:
    ttnn.CONFIG.enable_comparison_mode = True
    ttnn.CONFIG.enable_comparison_mode = False
    ttnn.relu(put(1, 1, 32, 32))
    assert op_report().calls == [] and Operation.runner is None


# --- golden functions as users have them --------------------------------------------------------------------------


def test_a_golden_function_is_called_as_its_op() -> None:
    x = torch.randn(2, 3)
    assert torch.equal(ttnn.get_golden_function(ttnn.relu)(x), x.relu())
    assert torch.equal(ttnn.get_golden_function(ttnn.relu)(x, memory_config=None, device="card"), x.relu())
    assert torch.equal(ttnn.get_golden_function(ttnn.leaky_relu)(x, 0.1), F.leaky_relu(x, 0.1))
    assert torch.equal(ttnn.get_golden_function(ttnn.add)(x, 2.0), x + 2)
    with pytest.raises(RuntimeError, match="does not have a golden function"):
        ttnn.get_golden_function(ttnn.zeros_like)
    with pytest.raises(TypeError, match=r"the golden function of ttnn\.max_pool2d needs (batch_size|dilation)"):
        ttnn.get_golden_function(ttnn.max_pool2d)(x, dilation=(1, 1))
    with pytest.raises(RuntimeError, match="does not have a golden function"):
        ttnn.get_golden_function(torch.relu)


def test_a_golden_function_can_be_attached(put: Any, comparing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GOLDEN, "relu", GOLDEN["relu"])
    seen = []
    ttnn.attach_golden_function(ttnn.relu, lambda x, **given: seen.append(given) or x.relu())
    ttnn.relu(put(1, 1, 32, 32), memory_config=ttnn.L1_MEMORY_CONFIG)
    assert seen == [{"memory_config": ttnn.L1_MEMORY_CONFIG}] and op_report().first_below is None
    with pytest.raises(TypeError, match="is not an operation of ttnn"):
        ttnn.attach_golden_function(torch.relu, torch.relu)
