"""Wild arguments: every call works or raises a typed error with a message; nothing hangs, nothing leaks."""

from __future__ import annotations

import faulthandler
import gc
import inspect
import random
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.device import MeshDevice
from tt_cnn.virtual.ops.operation import OPERATIONS, Operation
from tt_cnn.virtual.types.enums import BufferType

TYPED = (TypeError, ValueError, RuntimeError)
"""NotImplementedError and the card's own errors are RuntimeErrors."""
BATCH = 25
NOT_CALLED = {
    "CloseDevice",
    "CreateDevice",
    "close_device",
    "close_mesh_device",
    "command_queue",
    "dump_device_memory_state",
    "dump_tensor",
    "load_tensor",
    "as_tensor",
    "manage_config",
    "manage_device",
    "open_device",
    "open_mesh_device",
    "begin_trace_capture",
    "end_trace_capture",
    "SetDefaultDevice",
    "register_python_operation",
    "register_post_operation_hook",
    "register_pre_operation_hook",
    "set_printoptions",
    "annotations",
}
"""They open, close or configure something, or write files."""


def _functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {n: f for n, f in OPERATIONS.items() if not n.startswith("test_")}
    for name in dir(ttnn):
        value = getattr(ttnn, name)
        if isinstance(value, types.FunctionType) and not name.startswith("_") and name not in NOT_CALLED:
            found.setdefault(name, value)
    return found


class Pool:
    """Arguments of every kind: good, odd and broken."""

    def __init__(self, random_: random.Random, device: MeshDevice, other: MeshDevice) -> None:
        self.random = random_
        self.device = device
        shapes = [
            (1, 1, 32, 32),
            (1, 1, 64, 64),
            (2, 3, 7, 5),
            (40, 33),
            (17,),
            (1, 2, 3, 32, 32),
            (0, 32),
            (1, 1, 1, 1),
        ]
        dtypes = [ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b, ttnn.uint32, ttnn.int32, ttnn.uint16, ttnn.uint8]
        layouts = [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT]
        grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (1, 0))])
        row_major = ttnn.ShardOrientation.ROW_MAJOR
        sharded = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
        self.configs = [
            ttnn.DRAM_MEMORY_CONFIG,
            ttnn.L1_MEMORY_CONFIG,
            ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG,
            ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG,
            ttnn.MemoryConfig(sharded, BufferType.L1, ttnn.ShardSpec(grid, [32, 64], row_major)),
            ttnn.MemoryConfig(sharded, BufferType.L1, ttnn.ShardSpec(grid, [0, 0], row_major)),
            ttnn.MemoryConfig(sharded, BufferType.L1, ttnn.ShardSpec(grid, [7, 5], row_major)),
            ttnn.MemoryConfig(sharded, BufferType.DRAM, ttnn.ShardSpec(grid, [32, 64], row_major)),
            ttnn.MemoryConfig(
                sharded,
                BufferType.L1,
                ttnn.ShardSpec(ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (31, 31))]), [32, 32], row_major),
            ),
            ttnn.MemoryConfig(sharded, BufferType.L1, ttnn.ShardSpec(ttnn.CoreRangeSet([]), [32, 32], row_major)),
            ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, BufferType.L1_SMALL),
            ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, BufferType.TRACE),
        ]
        self.tensors: list[Any] = []
        for _ in range(10):
            shape, dtype, layout = random_.choice(shapes), random_.choice(dtypes), random_.choice(layouts)
            if dtype is ttnn.bfloat8_b:
                layout = ttnn.TILE_LAYOUT
            where = random_.choice([None, device, device, device, other])
            config = random_.choice(self.configs[:5]) if where is not None else None
            try:
                made = ttnn.from_torch(
                    torch.randint(0, 9, shape).float(), dtype=dtype, layout=layout, device=where, memory_config=config
                )
            except TYPED:
                made = ttnn.from_torch(torch.ones(1, 1, 32, 32), dtype=ttnn.bfloat16, device=device)
            self.tensors.append(made)
        gone = ttnn.from_torch(torch.ones(1, 1, 32, 32), dtype=ttnn.bfloat16, device=device)
        ttnn.deallocate(gone)
        self.tensors.append(gone)

    def wild(self) -> Any:
        return self.random.choice(
            [
                None,
                True,
                0,
                1,
                -1,
                3,
                -7,
                -(2**31),
                2**45,
                -(2**63),
                0.5,
                -1e30,
                float("nan"),
                float("inf"),
                "",
                "relu",
                b"x",
                [],
                (),
                [1, 2],
                (0, 0, 0, 0),
                (0, 1, 2, 3),
                [-1],
                (1, 1, 32, -1),
                (2**45, 2**31),
                ((0, 1), (1, 2)),
                [None],
                {},
                {"a": 1},
                slice(None),
                slice(0, -5, 0),
                object(),
                ttnn.Shape([1, 1, 32, 32]),
                torch.ones(2, 2),
                torch.float16,
                self.device,
                ttnn.CoreGrid(x=8, y=8),
                ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
                self.random.choice(list(ttnn.DataType)),
                self.random.choice(list(ttnn.Layout)),
                self.random.choice(list(ttnn.UnaryOpType)),
                self.random.choice(self.configs),
                self.random.choice(self.tensors),
                [self.random.choice(self.tensors), self.random.choice(self.tensors)],
                lambda *_: None,
            ]
        )

    def likely(self, name: str) -> Any:
        """What a parameter of this name would get from somebody who means well, mostly."""
        if self.random.random() < 0.2:
            return self.wild()
        if "tensor" in name or name in ("input", "other", "x", "a", "b", "input_a", "input_b"):
            return self.random.choice(self.tensors)
        if "memory_config" in name:
            return self.random.choice(self.configs)
        if "dtype" in name:
            return self.random.choice([ttnn.bfloat16, ttnn.bfloat8_b, ttnn.float32, ttnn.uint32, None])
        if "layout" in name:
            return self.random.choice(list(ttnn.Layout))
        if "device" in name:
            return self.device
        if "queue" in name or "cq" in name:
            return self.random.choice([0, 0, 1, 5, -1, None])
        if "dim" in name:
            return self.random.choice([0, 1, 3, -1, 9, (0, 1)])
        if "shape" in name or name in ("begins", "ends", "padding", "dims"):
            return self.random.choice([(1, 1, 32, 32), (64, 64), [1, -1], (0, 2, 3, 1), ((0, 0), (1, 1))])
        return self.wild()


def _arguments(function: Callable[..., Any], pool: Pool) -> tuple[list[Any], dict[str, Any]]:
    target = function.arguments if isinstance(function, Operation) else function
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = True
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            args += [pool.wild() for _ in range(pool.random.randrange(4))] if positional else []
            continue
        needed = parameter.default is parameter.empty
        if not needed and pool.random.random() < 0.6:
            positional = False
            continue
        if positional and parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(pool.likely(parameter.name))
        else:
            kwargs[parameter.name] = pool.likely(parameter.name)
    if pool.random.random() < 0.05:
        kwargs["no_such_argument"] = 1
    if args and pool.random.random() < 0.05:
        args.pop()
    return args, kwargs


def _failure(name: str, error: BaseException, args: list[Any], kwargs: dict[str, Any]) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.filename.rsplit('/', 2)[-2]}/{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
    return f"ttnn.{name} at {where}: {type(error).__name__}: {str(error)[:150]!r}"


def _describe(value: Any) -> str:
    if isinstance(value, ttnn.Tensor):
        place = "host" if value._buffer is None else value.memory_config().buffer_type.name
        return f"<{list(value.shape)} {value.dtype.name} {value.layout.name} {place}>"
    return repr(value)[:80]


def fuzz(calls: int, seed: int, functions: dict[str, Callable[..., Any]] | None = None) -> dict[str, str]:
    """What went wrong, by place, with an example of the arguments."""
    functions = functions or _functions()
    names = sorted(functions)
    chosen = random.Random(seed)
    torch.manual_seed(seed)
    wrong: dict[str, str] = {}
    device = ttnn.open_device(device_id=0, l1_small_size=65536, num_command_queues=2)
    other = ttnn.open_device(device_id=1, l1_small_size=65536)
    try:
        for start in range(0, calls, BATCH):
            pool = Pool(chosen, device, other)
            for _ in range(min(BATCH, calls - start)):
                name = chosen.choice(names)
                args, kwargs = _arguments(functions[name], pool)
                text = ", ".join([*map(_describe, args), *(f"{k}={_describe(v)}" for k, v in kwargs.items())])
                result = None
                try:
                    result = functions[name](*args, **kwargs)
                    ttnn.synchronize_device(device)
                    ttnn.synchronize_device(other)
                except TYPED as error:
                    if not str(error).strip():
                        wrong.setdefault(f"ttnn.{name} raised {type(error).__name__} without a message", text)
                except Exception as error:
                    wrong.setdefault(_failure(name, error, args, kwargs), text)
                for one in (device, other):
                    try:
                        ttnn.synchronize_device(one)
                    except Exception:
                        continue
                del result, args, kwargs
            del pool
            device.clear_program_cache()
            other.clear_program_cache()
            gc.collect()
            for one in (device, other):
                for kind in (BufferType.DRAM, BufferType.L1, BufferType.L1_SMALL):
                    left = one.memory_view(kind).total_bytes_allocated_per_bank
                    if left:
                        made_by = sorted({live.made_by for live in one.live.values()})
                        wrong.setdefault(f"{left} B of {kind.name} leaked, made by {made_by}", f"calls {start}..")
                        one.memory.regions[kind].restore(type(one.memory)(one.card).regions[kind].snapshot())
    finally:
        for one in (device, other):
            ttnn.close_device(one)
    return wrong


def _check(calls: int, seed: int, limit_s: int) -> None:
    faulthandler.dump_traceback_later(limit_s, exit=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = fuzz(calls, seed)
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert not wrong, "\n" + "\n".join(f"{what}\n    {call}" for what, call in wrong.items())


def test_a_thousand_wild_calls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some calls write files
    _check(1000, seed=1, limit_s=120)


@pytest.mark.long
def test_ten_thousand_wild_calls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _check(10_000, seed=2, limit_s=900)
