"""`batch_norm` of NCHW tensors with given statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.rows import Stream
from tt_cnn.virtual.cost.tensix import pack_cycles, unpack_cycles, vector_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.eltwise.time import Tiles, overlapped_cycles
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import staged, tiles
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.conversion import as_stored
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_DTYPES = (DataType.BFLOAT16, DataType.FLOAT32)
_OPTIONAL = ("weight", "bias")


@dataclass(frozen=True, kw_only=True)
class BatchNormProgram(ComputeProgram):
    op: str = "BatchNormOperation"
    factory: str = "BatchNormFactory"
    eps: float
    given: tuple[str, ...]
    """Which tensors come after the input, one value a channel each."""

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
        return replace(streamed, total=streamed.total + first + last)


@op("batch_norm")
class BatchNorm(Operation):
    """(x - mean) / sqrt(variance + eps), scaled and shifted, for each channel."""

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
        if training:
            raise NotImplementedError("the virtual card has no ttnn.batch_norm(training=True)")
        fatal(
            running_mean is not None and running_var is not None,
            "running_mean and running_var must be defined in evaluation mode",
        )
        named = {"mean": running_mean, "variance": running_var, "weight": weight, "bias": bias}
        given = {name: tensor for name, tensor in named.items() if tensor is not None}
        if output is not None:
            given["output"] = output
        compute = None if compute_kernel_config is None else Compute.of(compute_kernel_config)
        attributes = {"eps": as_stored(eps, DataType.FLOAT32), "memory_config": memory_config, "compute": compute}
        return Call([input, *given.values()], has=tuple(given), **attributes)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        *others: Slot,
        has: tuple[str, ...],
        eps: float,
        memory_config: MemoryConfig | None,
        compute: Compute | None,
    ) -> list[Slot]:
        if "output" in has:
            *others, output = others  # type: ignore[assignment]
            _check_output(output.spec, x.spec)
        for slot in (x, *others):
            fatal(
                slot.spec.dtype in _DTYPES,
                f"batch_norm only supports bfloat16, float32. Got: {slot.spec.dtype.native}",
            )
        named = dict(zip(has, others, strict=False))
        fatal(len(x.spec.shape) == 4, f"batch_norm takes a tensor of 4 dimensions, got {len(x.spec.shape)}")
        for name, slot in named.items():
            shape = slot.spec.shape
            fatal(
                len(shape) == 4 and shape[1] == x.spec.shape[1],
                f"batch_{name}_shape[1] must be the same as input's channel size.",
            )
        config = memory_config or x.spec.memory_config
        out = output if "output" in has else planner.allocate(x.spec.with_(memory_config=config))
        tile = x.spec.dtype.tile_bytes
        names = ("input", "output", "mean", "variance", "eps", "inverse root", "scratch")
        sizes = dict.fromkeys(names, 2 * tile)
        for name in _OPTIONAL:
            sizes[name] = 2 * (named[name].spec.dtype if name in named else DataType.BFLOAT16).tile_bytes
        program = BatchNormProgram(
            cores=planner.grid, buffers=staged(planner.grid, sizes), compute=compute, eps=eps, given=tuple(named)
        )
        planner.dispatch(program, [x, *others], [out])
        return [out]

    def numbers(
        self, context: Context, x: torch.Tensor, *others: torch.Tensor, has: tuple[str, ...], eps: float, **_: Any
    ) -> list[torch.Tensor]:
        """In float32, rounded once; the kernel's own steps and its registers are not followed."""
        specs = context.inputs[1:]
        named = {
            name: value[tuple(slice(0, size) for size in spec.shape)]
            for name, value, spec in zip(has, others, specs, strict=True)
        }
        value = (context.logical(x) - named["mean"]) * torch.rsqrt(named["variance"] + eps)
        if "weight" in named:
            value = value * named["weight"]
        if "bias" in named:
            value = value + named["bias"]
        return [context.store(value)]


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
