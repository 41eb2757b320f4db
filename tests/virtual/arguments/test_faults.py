# SPDX-License-Identifier: Apache-2.0
"""What breaks inside tt-cnn is told as its own fault, with a script, and never as a mistake of the caller's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arguments.call_script import call_script
from tt_cnn.virtual.arguments.faults import is_fault
from tt_cnn.virtual.errors.card_error import InternalError
from tt_cnn.virtual.ops.operation import OPERATIONS
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.memory_config import MemoryConfig


@pytest.fixture
def card() -> Iterator[Any]:
    with ttnn.manage_device(0) as device:
        yield device


@pytest.fixture
def x(card: Any) -> Any:
    return ttnn.from_torch(torch.ones(1, 1, 32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)


def broken(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An op of ours that reads a memory config wrongly, while it plans or while it computes."""

    def wrong(*_: Any, **__: Any) -> Any:
        return MemoryConfig.from_json('{"buffer_type": 0}')

    monkeypatch.setattr(type(OPERATIONS["relu"]), kind, wrong)


def test_a_fault_while_planning(card: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken("plan", monkeypatch)
    with pytest.raises(InternalError, match="a fault of tt-cnn, not of your program") as caught:
        ttnn.relu(x, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert "KeyError: 'memory_layout'" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "ttnn.relu(t0, memory_config=ttnn.MemoryConfig(" in caught.value.script
    assert len(card.live) == 1


def test_a_fault_on_the_queue(card: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken("numbers", monkeypatch)
    kept = ttnn.relu(x)
    with pytest.raises(InternalError, match=r"ttnn\.relu broke inside tt-cnn: KeyError") as caught:
        ttnn.synchronize_device(card)
    assert "ttnn.relu(t0)" in caught.value.script
    del kept


def test_a_fault_in_a_replay_is_not_told_as_a_mistake(card: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ttnn.relu(x)
    ttnn.synchronize_device(card)
    broken("numbers", monkeypatch)
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    kept = ttnn.relu(x)
    ttnn.end_trace_capture(card, trace, cq_id=0)
    with pytest.raises(InternalError):
        ttnn.execute_trace(card, trace, cq_id=0, blocking=True)
    del kept


def test_a_fault_in_a_function(monkeypatch: pytest.MonkeyPatch, x: Any) -> None:
    def wrong(self: Tensor) -> Any:
        return MemoryConfig.from_json('{"buffer_type": 0}')

    monkeypatch.setattr(Tensor, "is_sharded", wrong)
    with pytest.raises(InternalError, match=r"ttnn\.is_sharded broke inside tt-cnn"):
        ttnn.is_sharded(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ttnn.from_torch(torch.ones(2), memory_config=3),
        lambda x: ttnn.from_torch("x"),
        lambda x: ttnn.relu(x, memory_config="L1"),
        lambda x: ttnn.softmax(x, "last"),
        lambda x: ttnn.softmax(x, 0.5),
        lambda x: ttnn.permute(x, 3),
        lambda x: ttnn.permute(x, "0123"),
        lambda x: ttnn.reshape(x, [1, 1, 32.0, 32]),
        lambda x: ttnn.matmul(x, x, core_grid=(8, 8)),
        lambda x: ttnn.mean(x, compute_kernel_config=3),
        lambda x: ttnn.fold(x, "2", 2),
        lambda x: ttnn.is_sharded(None),
        lambda x: ttnn.to_torch(x, mesh_composer=3),
        lambda x: ttnn.from_device([x]),
    ],
)
def test_wrong_types_are_the_bindings_type_error(x: Any, call: Any) -> None:
    with pytest.raises(TypeError, match=r"incompatible function arguments|takes a") as caught:
        call(x)
    assert caught.value.__cause__ is None or isinstance(caught.value.__cause__, TypeError)


def error_of(function: Any) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def test_whose_fault_it_is(x: Any) -> None:
    ours = error_of(lambda: MemoryConfig.from_json("{}"))
    assert is_fault(ours)
    refusal = error_of(lambda: MemoryConfig(memory_layout=3))  # type: ignore[arg-type]
    assert not is_fault(refusal)
    theirs = error_of(lambda: {}["a"])
    assert not is_fault(theirs)
    of_a_library = error_of(lambda: MemoryConfig.from_json("no json"))
    assert is_fault(of_a_library)


def test_the_functions_that_callers_give_us_are_theirs(card: Any) -> None:
    with pytest.raises(KeyError, match="theirs"):
        ttnn.as_tensor(torch.ones(1), preprocess=lambda _: {}["theirs"])


def test_a_script_makes_the_call_again(x: Any, tmp_path: Path) -> None:
    grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (0, 0))])
    shard = ttnn.ShardSpec(grid, [32, 32], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)
    relu = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
    script = call_script("ttnn.add", (x, x), {"memory_config": config, "activations": [relu]})
    assert script.count("ttnn.zeros") == 1, "the same tensor twice"
    assert "1., 1." not in script, "no values"
    file = tmp_path / "call.py"
    file.write_text(script)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
