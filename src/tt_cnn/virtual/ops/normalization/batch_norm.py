# SPDX-License-Identifier: Apache-2.0
"""`batch_norm` of NCHW tensors, with given statistics or with those of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.rows import Stream
from tt_cnn.virtual.cost.tensix import pack_cycles, unpack_cycles, vector_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.eltwise.activations import Kernel
from tt_cnn.virtual.ops.eltwise.binary_plan import plan_binary
from tt_cnn.virtual.ops.eltwise.kinds import MUL, SUB
from tt_cnn.virtual.ops.eltwise.time import Tiles, overlapped_cycles, streamed_cycles
from tt_cnn.virtual.ops.eltwise.unary_plan import plan_unary
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import staged, tiles
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.conversion import as_stored
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_DTYPES = (DataType.BFLOAT16, DataType.FLOAT32)
_NAMES = {"mean": "running_mean", "variance": "running_var", "weight": "weight", "bias": "bias"}


@dataclass(frozen=True, kw_only=True)
class BatchNormProgram(ComputeProgram):
    suffix: ClassVar[str] = "Operation"
    op: str = "BatchNorm"
    factory: str = "BatchNormFactory"
    eps: float
    given: tuple[str, ...]
    """Which tensors come after the input, one value per channel each."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        """A tile meets each of a channel's values in turn: less the mean, by the root's inverse, scaled, shifted.

        The values are read, and the root is taken, whenever a core comes to another channel. Tiles go one by one, each
        waited for; the first passes through alone, and so does the last.
        """
        x, *values = (slot.spec for slot in step.inputs)
        out = step.outputs[0].spec
        matrices, rows, columns = tiles(x)
        cores = max(1, min(step.cores.num_cores(), matrices * rows * columns))
        share = div_up(matrices * rows * columns, cores)
        channels = div_up(share, max(1, rows * columns))
        moved = max(2 * unpack_cycles(figures, x.dtype), pack_cycles(figures, out.dtype))
        root = vector_cycles(figures, "rsqrt", False)
        passed = share * len(values) + channels
        streamed = overlapped_cycles(
            figures,
            cores,
            [Tiles(x, share), *(Tiles(one, channels) for one in values)],
            [Tiles(out, share)],
            compute=passed * max(figures.elementwise_cycles, moved) + channels * root,
            vector=channels * root,
            unpack_pack=passed * moved,
        )
        first = sum(Stream(one, 1, 1).together(figures, cores) for one in (x, *values)) + figures.constant_tile_cycles
        last = len(values) * figures.elementwise_cycles + Stream(out, 1, 1).together(figures, cores, read=False)
        return streamed._replace(total=streamed.total + first + last)


@dataclass(frozen=True, kw_only=True)
class RunningStatisticsProgram(ComputeProgram):
    """A step from the running statistics towards those of the batch."""

    op: str = "RunningStatistics"
    factory: str = "RunningStatisticsProgramFactory"
    momentum: float

    def time(self, step: Step, figures: Figures) -> Cycles:
        return streamed_cycles(step, figures)


@op("batch_norm")
class BatchNorm(Operation):
    """(x - mean) / sqrt(variance + eps), scaled and shifted, for each channel.

    In training mean and variance are the batch's, and the running ones are brought forward in place.
    """

    def arguments(
        self,
        input: Tensor,
        *,
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        training: bool = False,
        eps: float = 1e-05,
        momentum: float = 0.1,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        output: Tensor | None = None,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
    ) -> Call:
        named = {"mean": running_mean, "variance": running_var, "weight": weight, "bias": bias, "output": output}
        given = {name: tensor for name, tensor in named.items() if tensor is not None}
        return Call(
            [input, *given.values()],
            has=tuple(given),
            eps=as_stored(eps, DataType.FLOAT32),
            memory_config=memory_config,
            compute=None if compute_kernel_config is None else Compute.of(compute_kernel_config),
            training=training,
            momentum=as_stored(momentum, DataType.FLOAT32),
        )

    def plan(
        self,
        planner: Planner,
        x: Slot,
        *others: Slot,
        has: tuple[str, ...],
        eps: float,
        memory_config: MemoryConfig | None,
        compute: Compute | None,
        training: bool,
        momentum: float,
    ) -> list[Slot]:
        named = dict(zip(has, others, strict=True))
        _check_call(x.spec, {name: slot.spec for name, slot in named.items()})
        config = memory_config or x.spec.memory_config
        running: dict[str, Slot] = {n: named.pop(n) for n in ("mean", "variance") if n in named}
        scope = Temporaries(planner)
        if training:
            mean, variance = _plan_statistics(planner, scope, x, config, compute)
        else:
            fatal(len(running) == 2, "running_mean and running_var must be defined in evaluation mode")
            mean, variance = running["mean"], running["variance"]
        out = _plan_norm(planner, x, mean, variance, named, eps, config, compute)
        updated: list[Slot] = []
        if training and running:
            updated = _plan_running(planner, scope, mean, variance, running, config, compute, momentum)
        scope.leave(out)
        return [out, *updated]

    def numbers(
        self,
        context: Context,
        x: torch.Tensor,
        *others: torch.Tensor,
        has: tuple[str, ...],
        eps: float,
        training: bool,
        momentum: float,
        **_: Any,
    ) -> list[torch.Tensor]:
        """In float32, rounded once; the kernels' own steps and their registers are not followed."""
        specs = context.inputs[1:]
        named = {
            name: value[tuple(slice(0, size) for size in spec.shape)]
            for name, value, spec in zip(has, others, specs, strict=True)
        }
        own = context.logical(x)
        updated = []
        if training:
            mean = own.mean((0, 2, 3), keepdim=True)
            variance = (own - mean).square().mean((0, 2, 3), keepdim=True)
            count = own.numel() // own.shape[1]
            steps = {"mean": mean, "variance": variance * (count / max(1, count - 1))}
            updated = [(1.0 - momentum) * named[n] + momentum * steps[n] for n in steps if n in named]
        else:
            mean, variance = named["mean"], named["variance"]
        value = (own - mean) * torch.rsqrt(variance + eps)
        if "weight" in named:
            value = value * named["weight"]
        if "bias" in named:
            value = value + named["bias"]
        return [context.store(one, i) for i, one in enumerate((value, *updated))]


def _plan_statistics(
    planner: Planner, scope: Temporaries, x: Slot, config: MemoryConfig, compute: Compute | None
) -> tuple[Slot, Slot]:
    """Mean and variance of each channel: over rows and columns, then over images."""

    def mean_of(source: Slot) -> Slot:
        means = OPERATIONS["mean"]
        options = {"keepdim": True, "memory_config": config, "layout": None, "compute": compute, "scalar": 1.0}
        options |= {"cores": None, "fast": False}
        (planes,) = means.plan(planner, source, dims=(2, 3), **options)
        (channels,) = means.plan(planner, planes, dims=(0,), **options)
        planner.free(planes)
        return channels

    mean = scope.add(mean_of(x))
    dtype = x.spec.dtype
    centered = plan_binary(planner, SUB, x, mean, dtype=dtype, memory_config=config)
    squares = plan_unary(planner, centered, Kernel("square"), dtype=dtype, memory_config=config)
    variance = scope.add(mean_of(squares))
    planner.free(squares)
    planner.free(centered)
    return mean, variance


def _plan_norm(
    planner: Planner,
    x: Slot,
    mean: Slot,
    variance: Slot,
    named: Mapping[str, Slot],
    eps: float,
    config: MemoryConfig,
    compute: Compute | None,
) -> Slot:
    params = {"mean": mean, "variance": variance} | dict(named)
    output = params.pop("output", None)
    _check_norm(x.spec, {name: slot.spec for name, slot in params.items()}, config)
    out = output or planner.allocate(x.spec.with_(memory_config=config))
    wide = _widest(x, *params.values()).tile_bytes
    sizes = {"input": 2 * x.spec.dtype.tile_bytes, "mean": 2 * mean.spec.dtype.tile_bytes, "result": 2 * wide}
    sizes |= {"variance": 2 * variance.spec.dtype.tile_bytes, "eps": 2 * wide}
    for name in ("weight", "bias"):
        sizes[name] = 2 * (params[name].spec.dtype if name in params else DataType.BFLOAT16).tile_bytes
    sizes |= {"inverse root": 2 * wide, "scratch": 2 * wide}
    if out.spec.dtype.tile_bytes != wide:
        sizes["output"] = 2 * out.spec.dtype.tile_bytes
    program = BatchNormProgram(
        cores=planner.grid, buffers=staged(planner.grid, sizes), compute=compute, eps=eps, given=tuple(params)
    )
    planner.dispatch(program, [x, *params.values()], [out])
    return out


def _plan_running(
    planner: Planner,
    scope: Temporaries,
    mean: Slot,
    variance: Slot,
    running: Mapping[str, Slot],
    config: MemoryConfig,
    compute: Compute | None,
    momentum: float,
) -> list[Slot]:
    """Brings the running statistics forward, the variance without a sample's bias. Its own result nobody uses."""
    if "variance" in running:
        unbiased = plan_binary(planner, MUL, variance, None, dtype=variance.spec.dtype, memory_config=config)
        variance = scope.add(unbiased)
    out = scope.add(planner.allocate(mean.spec.with_(memory_config=config)))
    wide = _widest(mean, variance, *running.values()).tile_bytes
    sizes = {"mean": 2 * mean.spec.dtype.tile_bytes, "variance": 2 * variance.spec.dtype.tile_bytes}
    sizes |= {"output": 2 * out.spec.dtype.tile_bytes, "momentum": 2 * wide, "one": 2 * wide}
    for name in ("mean", "variance"):
        given = running[name].spec.dtype if name in running else DataType.BFLOAT16
        sizes[f"running {name}"] = 2 * given.tile_bytes
        sizes[f"new {name}"] = 2 * (wide if name in running else given.tile_bytes)
        if name in running and given.tile_bytes != wide:
            sizes[f"packed {name}"] = 2 * given.tile_bytes
    program = RunningStatisticsProgram(
        cores=planner.grid, buffers=staged(planner.grid, sizes), compute=compute, momentum=momentum
    )
    planner.dispatch(program, [mean, variance, *running.values()], [out, *running.values()])
    return list(running.values())


def _widest(*slots: Slot) -> DataType:
    wide = any(slot.spec.dtype is DataType.FLOAT32 for slot in slots)
    return DataType.FLOAT32 if wide else DataType.BFLOAT16


def _check_call(x: Spec, named: Mapping[str, Spec]) -> None:
    rank = len(x.shape)
    fatal(rank >= 4, f"batch_norm not supported for tensors with rank < 4. (rank={rank})")
    if "output" in named:
        _check_output(named["output"], x)
    params = {_NAMES[name]: spec for name, spec in named.items() if name in _NAMES}
    for name, spec in params.items():
        first = next(iter(params.values()))
        fatal(
            spec.dtype is first.dtype,
            f"batch_norm: {name} dtype ({spec.dtype.native}) must match other parameter tensors dtype "
            f"({first.dtype.native})",
        )


def _check_norm(x: Spec, params: Mapping[str, Spec], config: MemoryConfig) -> None:
    fatal(x.layout is Layout.TILE, "Input tensor must be must be tilized")
    fatal(x.memory_config.interleaved, "Input tensor must be interleaved")
    fatal(config.interleaved, "Output tensor to eltwise binary must be interleaved")
    for name, spec in params.items():
        said = {"mean": "batch_mean", "variance": "batch_var"}.get(name, name)
        fatal(spec.layout is Layout.TILE, f"{said} tensor must be tilized")
        fatal(spec.memory_config.interleaved, f"{said} tensor must be interleaved")
    shapes = {"mean": "batch_mean_shape", "variance": "batch_mean_shape"}
    for name, spec in (("input", x), *params.items()):
        fatal(spec.dtype in _DTYPES, f"batch_norm only supports bfloat16, float32. Got: {spec.dtype.native}")
        fatal(len(spec.shape) == 4, "batch_norm supports tensors of rank 4")
        fatal(
            spec.shape[1] == x.shape[1],
            f"{shapes.get(name, f'{name}_shape')}[1] must be the same as input's channel size.",
        )


def _check_output(output: Spec, x: Spec) -> None:
    fatal(
        output.dtype is x.dtype,
        f"batch_norm: output dtype ({output.dtype.native}) must match input dtype ({x.dtype.native})",
    )
    fatal(
        (output.shape, output.layout) == (x.shape, x.layout),
        f"batch_norm is planned with an output of the input's shape and layout ({x.shape}, {x.layout.native}) on this "
        f"card, got {output.shape}, {output.layout.native}.",
    )
