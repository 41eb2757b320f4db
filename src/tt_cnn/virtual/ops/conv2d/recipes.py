"""From a dispatched step to the recipe of its numbers. Slices of a convolution share one: rows do not matter to it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.convolution import Inner, Recipe, Window
from tt_cnn.virtual.ops.conv2d.blocks import Blocks, Compute, partial_dtype
from tt_cnn.virtual.ops.matmul.configs import Activation
from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import DataType, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.tensor_spec import Spec

_SCHEMES = {HEIGHT: "height", BLOCK: "block", WIDTH: "width"}


def multiplying_step(steps: Iterable[Step]) -> Step:
    """The (first) step of a plan that multiplies."""
    step = next((step for step in steps if step.op in ("Conv2d", "Matmul")), None)
    fatal(step is not None, "The plan of this convolution has no step that multiplies.")
    assert step is not None
    return step


def kernel_of_step(step: Step) -> tuple[int, int]:
    """Of a convolution whose stride was folded into channels it is smaller than the call's."""
    kernel: tuple[int, int] = step.program.decisions["window"].window if step.op == "Conv2d" else (1, 1)
    return kernel


def fused_activation(step: Step) -> Activation | None:
    if isinstance(step.program, MatmulProgram):
        return step.program.activation
    fused: Activation | None = step.program.decisions["activation"]
    return fused


@lru_cache(maxsize=4096)
def recipe_of(step: Step, fidelity: MathFidelity, window: Window, channels: int, groups: int) -> Recipe:
    """`window` and `channels` are those through which and with which the step sees the whole image."""
    source, weight, *rest = (slot.spec for slot in step.inputs)
    output = step.outputs[0].spec.dtype
    if isinstance(step.program, MatmulProgram):
        recipe = _of_matmul(step.program, window, channels, source, output)
    else:
        recipe = _of_convolution(step.program.decisions, window, channels, source, weight, output, bool(rest))
    return recipe.but(fidelity=fidelity, groups=groups)


def _of_convolution(
    attributes: dict[str, Any],
    window: Window,
    channels: int,
    source: Spec,
    weight: Spec,
    output: DataType,
    bias: bool,
) -> Recipe:
    """Activations are tilized into the output's format, which is that of partial sums too unless the packer adds."""
    blocks: Blocks = attributes["blocks"]
    compute: Compute = attributes["compute"]
    full_inner, reuses, _ = attributes["options"]
    layout = source.memory_config.memory_layout
    shard = source.shard.shape[1]
    height, width = window.kernel
    inner = Inner(
        _SCHEMES[layout],
        window.kernel,
        channels,
        shard,
        cores=1 if layout is HEIGHT else source.physical[1] // shard,
        whole={HEIGHT: reuses, BLOCK: full_inner, WIDTH: False}[layout],
        parts=shard * height * width // (blocks.act_w * TILE_SIZE) if layout is WIDTH else 1,
    )
    rows, columns = weight.physical
    return Recipe(
        window,
        inner,
        activations=output,
        output=output,
        partials=partial_dtype(layout, blocks, rows, columns, output, bias, compute),
        fp32_dest=compute.fp32_accumulation,
        packer_adds=compute.packer_l1 and len(inner.pieces()) > (1 if bias else 2),
        bias=bias,
        untilizes=attributes["row_major"],
    )


def _of_matmul(program: MatmulProgram, window: Window, channels: int, source: Spec, output: DataType) -> Recipe:
    """Activations keep their format; partial sums are float32 with float32 registers.

    Blocks of the inner dimension beyond the channels hold zeros and are left out.
    """
    inner, compute = Inner.of_matmul(channels), program.compute
    block = program.depth * TILE_SIZE
    adds = compute.packer_l1 and inner.shard > block
    narrow = DataType.BFLOAT16 if adds else output
    return Recipe(
        window,
        inner,
        activations=source.dtype,
        output=output,
        partials=DataType.FLOAT32 if compute.fp32 else narrow,
        fp32_dest=compute.fp32,
        packer_adds=adds,
        bias=program.adds_bias,
        block=block,
        reloads_whole=True,
    )
