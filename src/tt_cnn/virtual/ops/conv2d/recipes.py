# SPDX-License-Identifier: Apache-2.0
"""From a dispatched step to the recipe of its numbers. Slices of a convolution share one: rows do not matter to it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.convolution import Inner, Recipe, Window
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
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
    step = next((step for step in steps if isinstance(step.program, ConvProgram) or step.op == "Matmul"), None)
    fatal(step is not None, "The plan of this convolution has no step that multiplies.")
    assert step is not None
    return step


def kernel_of_step(step: Step) -> tuple[int, int]:
    """Of a convolution whose stride was folded into channels it is smaller than the call's."""
    return step.program.window.window if isinstance(step.program, ConvProgram) else (1, 1)


def fused_activation(step: Step) -> Activation | None:
    assert isinstance(step.program, MatmulProgram | ConvProgram)
    return step.program.activation


@lru_cache(maxsize=4096)
def recipe_of(step: Step, fidelity: MathFidelity, window: Window, channels: int, groups: int) -> Recipe:
    """`window` and `channels` are those through which and with which the step sees the whole image."""
    source, output = step.inputs[0].spec, step.outputs[0].spec.dtype
    if isinstance(step.program, MatmulProgram):
        recipe = _of_matmul(step.program, window, channels, source, output)
    else:
        assert isinstance(step.program, ConvProgram)
        recipe = _of_convolution(step.program, window, channels, source, output)
    return recipe.but(fidelity=fidelity, groups=groups)


def _of_convolution(program: ConvProgram, window: Window, channels: int, source: Spec, output: DataType) -> Recipe:
    """Activations are tilized into the output's format, which is that of partial sums too unless the packer adds."""
    blocks, compute, bias = program.blocks, program.compute, program.has_bias
    layout = source.memory_config.memory_layout
    shard = source.shard.shape[1]
    height, width = window.kernel
    inner = Inner(
        _SCHEMES[layout],
        window.kernel,
        channels,
        shard,
        cores=1 if layout is HEIGHT else source.physical[1] // shard,
        whole={HEIGHT: program.reuses_activations, BLOCK: program.full_inner, WIDTH: False}[layout],
        parts=shard * height * width // (blocks.act_w * TILE_SIZE) if layout is WIDTH else 1,
    )
    return Recipe(
        window,
        inner,
        activations=output,
        output=output,
        partials=program.partials,
        fp32_dest=compute.fp32_accumulation,
        packer_adds=compute.packer_l1 and len(inner.pieces()) > (1 if bias else 2),
        bias=bias,
        untilizes=program.row_major,
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
