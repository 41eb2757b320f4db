# SPDX-License-Identifier: Apache-2.0
"""Arguments that nobody would give, and some that somebody might: what `wild_calls.py` calls every function with."""

from __future__ import annotations

import inspect
import random
import types
from collections.abc import Callable
from typing import Any

import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.operation import OPERATIONS, Operation
from tt_cnn.virtual.types.enums import BufferType

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

REFUSALS = (TypeError, ValueError, RuntimeError)
"""NotImplementedError and the card's own errors are RuntimeErrors."""

Arguments = tuple[list[Any], dict[str, Any]]


def functions() -> dict[str, Callable[..., Any]]:
    """Every op and function of the virtual TT-NN by its name."""
    found: dict[str, Callable[..., Any]] = {n: f for n, f in OPERATIONS.items() if not n.startswith("test_")}
    for name in dir(ttnn):
        value = getattr(ttnn, name)
        if isinstance(value, types.FunctionType) and not name.startswith("_") and name not in NOT_CALLED:
            found.setdefault(name, value)
    return found


SHAPES = [
    (1, 1, 32, 32),
    (1, 1, 64, 64),
    (2, 3, 7, 5),
    (1, 8, 8, 32),
    (40, 33),
    (64, 64),
    (17,),
    (1, 2, 3, 32, 32),
    (0, 32),
    (1, 1, 0, 32),
    (2, 0),
    (1, 1, 1, 1),
    (),
]
DTYPES = [
    ttnn.bfloat16,
    ttnn.float32,
    ttnn.bfloat8_b,
    ttnn.bfloat4_b,
    ttnn.uint32,
    ttnn.int32,
    ttnn.uint16,
    ttnn.uint8,
]
BLOCKS = (ttnn.bfloat8_b, ttnn.bfloat4_b)


def _configs() -> list[Any]:
    grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (1, 0))])
    far = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (31, 31))])
    high, wide, block = (
        ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
        ttnn.TensorMemoryLayout.WIDTH_SHARDED,
        ttnn.TensorMemoryLayout.BLOCK_SHARDED,
    )

    def sharded(layout: Any, cores: Any, shape: list[int], where: Any = BufferType.L1) -> Any:
        return ttnn.MemoryConfig(layout, where, ttnn.ShardSpec(cores, shape, ttnn.ShardOrientation.ROW_MAJOR))

    return [
        ttnn.DRAM_MEMORY_CONFIG,
        ttnn.L1_MEMORY_CONFIG,
        sharded(high, grid, [32, 64]),
        sharded(high, grid, [32, 32]),
        sharded(wide, grid, [64, 32]),
        sharded(block, grid, [64, 32]),
        ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG,
        ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG,
        ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
        sharded(high, grid, [0, 0]),
        sharded(high, grid, [7, 5]),
        sharded(high, grid, [32, 64], BufferType.DRAM),
        sharded(high, far, [32, 32]),
        sharded(high, ttnn.CoreRangeSet([]), [32, 32]),
        ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, BufferType.L1_SMALL),
        ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, BufferType.TRACE),
    ]


MEANT_WELL = 6
"""So many of the configs, from the first, are for tensors to start from."""
WILDNESS = (0.0, 0.05, 0.15, 0.4)
"""How often an argument of a call is anything at all; calls that mean well get further inside."""


class Pool:
    """Arguments of every kind: good, odd and broken. Its tensors live as long as it does."""

    def __init__(self, draw: random.Random, device: MeshDevice, other: MeshDevice) -> None:
        self.random = draw
        self.wildness = 0.0
        self.device = device
        self.configs = _configs()
        family = draw.choice(SHAPES), draw.choice(DTYPES)  # tensors that go together
        self.tensors: list[Any] = [self._tensor(device, other, *family) for _ in range(4)]
        self.tensors += [self._tensor(device, other, draw.choice(SHAPES), draw.choice(DTYPES)) for _ in range(8)]
        gone = ttnn.from_torch(torch.ones(1, 1, 32, 32), dtype=ttnn.bfloat16, device=device)
        ttnn.deallocate(gone)
        self.tensors.append(gone)

    def _tensor(self, device: MeshDevice, other: MeshDevice, shape: tuple[int, ...], dtype: Any) -> Any:
        draw = self.random
        layout = ttnn.TILE_LAYOUT if dtype in BLOCKS else draw.choice([ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
        where = draw.choice([None, *[device] * 8, other])
        config = draw.choice(self.configs[:MEANT_WELL]) if where is not None else None
        values = torch.tensor([draw.randrange(9) for _ in range(7)]).float()
        filled = values.repeat(-(-torch.Size(shape).numel() // 7))[: torch.Size(shape).numel()].reshape(shape)
        try:
            return ttnn.from_torch(filled, dtype=dtype, layout=layout, device=where, memory_config=config)
        except REFUSALS:
            return ttnn.from_torch(
                torch.ones(1, 1, 32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device
            )

    def wild(self) -> Any:
        draw = self.random
        return draw.choice(
            [
                None,
                True,
                0,
                1,
                -1,
                3,
                -7,
                -(2**31),
                2**31,
                2**45,
                -(2**63),
                2**70,
                0.5,
                -1e30,
                float("nan"),
                float("inf"),
                "",
                "relu",
                "floor",
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
                draw.choice(list(ttnn.DataType)),
                draw.choice(list(ttnn.Layout)),
                draw.choice(list(ttnn.UnaryOpType)),
                draw.choice(self.configs),
                draw.choice(self.tensors),
                [draw.choice(self.tensors), draw.choice(self.tensors)],
                lambda *_: None,
            ]
        )

    def likely(self, parameter: inspect.Parameter) -> Any:
        """What a parameter would get from somebody who means well, mostly."""
        if self.random.random() < self.wildness:
            return self.wild()
        name, text = parameter.name, str(parameter.annotation)
        for words, values in self._by_name():
            if any(word in name for word in words):
                return self.random.choice(values)
        for kind, values in self._by_kind():
            if text.startswith(kind):
                return self.random.choice(values)
        return self.wild()

    def _by_name(self) -> list[tuple[tuple[str, ...], list[Any]]]:
        """The first whose words are in the parameter's name gives the values."""
        pairs: list[Any] = [(2, 2), (1, 1), (3, 3), (0, 0), [2, 1], 2, (1, 1, 1, 1), (2**31, 1), (5,)]
        grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (3, 3))])
        return [
            (("memory_config",), self.configs),
            (("compute_kernel_config", "compute_config"), [None, ttnn.WormholeComputeKernelConfig()]),
            (("conv_config",), [None, ttnn.Conv2dConfig(), ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b)]),
            (("core_grid", "sub_core"), [None, ttnn.CoreGrid(x=2, y=2), grid, ttnn.CoreRangeSet([])]),
            (("activation",), [None, [], ["relu"], ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), "silu"]),
            (("tensors",), [self.random.sample(self.tensors, self.random.randrange(4))]),
            (("dtype",), [*DTYPES, None, ttnn.bfloat16]),
            (("memory_layout", "shard_layout"), list(ttnn.TensorMemoryLayout)),
            (("layout",), list(ttnn.Layout)),
            (("mesh_device", "device"), [self.device]),
            (("queue", "cq_id"), [0, 0, 1, 5, -1, None]),
            (("rounding_mode",), [None, "floor", "trunc", "up"]),
            (("stride_h", "stride_w", "num_groups", "repeats", "chunks", "split_size"), [1, 2, 2, 4, 8, 3, 0, 32]),
            (("kernel_size", "stride", "dilation", "padding", "scale_factor"), pairs),
            (("mode",), ["nearest", "bilinear", "constant", None, False, True]),
            (("channels",), [32, 64, 5, 1, 0]),
            (("batch_size",), [1, 1, 2, 0]),
            (("input_h", "input_w", "height", "width"), [8, 1, 7, 5, 64, 0]),
            (("dims", "shape", "begins", "ends", "repeat"), [(1, 1, 32, 32), (64, 64), [1, -1], (0, 2, 3, 1), (3, 2)]),
            (("dim",), [0, 1, 2, 3, -1, -2, 9, (0, 1), None, [2, 3]]),
            (("tensor", "weight", "bias", "index", "src"), self.tensors),
        ]

    def _by_kind(self) -> list[tuple[str, list[Any]]]:
        """The first that the annotation starts with gives the values; a tensor where there is no annotation."""
        return [
            ("Tensor", self.tensors),
            ("bool", [True, False]),
            ("int | Sequence", [0, 1, (1, 2), [3]]),
            ("int", [0, 1, 2, 3, 8, 32, -1, 2**31]),
            ("float", [0.5, 1.0, 0, -2.5, 3, float("nan"), float("inf"), 1e39]),
            ("Sequence", [(1, 1), (0, 0, 0, 0), (1, 1, 32, 32), [2], ()]),
            ("str", ["nearest", "bilinear", "constant", "OIHW"]),
            ("MeshDevice", [self.device]),
            ("<class 'inspect._empty'>", [*self.tensors, 0.5, 2, 0, True, None]),
        ]


def arguments(function: Callable[..., Any], pool: Pool) -> Arguments:
    """Arguments for one call, by the function's signature, most of the time."""
    target = function.arguments if isinstance(function, Operation) else function
    pool.wildness = pool.random.choice(WILDNESS)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    positional = True
    for parameter in inspect.signature(target).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            args += [pool.wild() for _ in range(pool.random.randrange(4))] if positional else []
            continue
        needed = parameter.default is parameter.empty
        if not needed and pool.random.random() < 0.75:
            positional = False
            continue
        if positional and parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(pool.likely(parameter))
        else:
            kwargs[parameter.name] = pool.likely(parameter)
    if pool.random.random() < pool.wildness / 4:
        kwargs["no_such_argument"] = 1
    if args and pool.random.random() < pool.wildness / 4:
        args.pop()
    return args, kwargs
