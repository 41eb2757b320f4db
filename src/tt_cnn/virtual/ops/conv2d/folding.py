# SPDX-License-Identifier: Apache-2.0
"""Kernel-stride folding: a kernel that steps by its own size becomes a 1x1 kernel on an input folded into channels."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.moving import release
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.shape.fold.fold import plan_fold as plan_fold_of_patches
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.sliding_window.parallel import HEIGHT
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import Shape, div_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


def folds(conv: Convolution, config: MemoryConfig, layout: Layout, settings: Settings) -> bool:
    """Whether the stride is folded, of an input there (`auto_enable_kernel_folding`)."""
    if settings.enable_kernel_stride_folding is not None:
        return settings.enable_kernel_stride_folding and conv.stride != (1, 1)
    if conv.stride != conv.kernel or conv.stride == (1, 1) or conv.dilation != (1, 1):
        return False
    top, bottom, left, right = conv.padding
    if (conv.height + top + bottom) % conv.stride[0] or (conv.width + left + right) % conv.stride[1]:
        return False
    in_dram = config.is_dram() and (layout is Layout.ROW_MAJOR or not any(conv.padding))
    return in_dram or config.memory_layout is HEIGHT


def folded(conv: Convolution) -> tuple[Convolution, bool]:
    """The convolution on the folded input, and whether it is a matmul."""
    top, bottom, left, right = conv.padding
    height, width = conv.height + top + bottom, conv.width + left + right
    for name, size, stride in (("height", height, conv.stride[0]), ("width", width, conv.stride[1])):
        fatal(
            size % stride == 0,
            f"Padded input {name} ({size}) must be divisible by stride ({stride}) for kernel stride folding.",
        )
    kernel = div_up(conv.kernel[0], conv.stride[0]), div_up(conv.kernel[1], conv.stride[1])
    return conv.but(
        height=height // conv.stride[0],
        width=width // conv.stride[1],
        in_channels=conv.in_channels * conv.stride[0] * conv.stride[1],
        kernel=kernel,
        stride=(1, 1),
        padding=(0, 0, 0, 0),
    ), conv.kernel == conv.stride


def plan_fold(
    planner: Planner, source: Slot | None, host: Spec | None, conv: Convolution, settings: Settings
) -> tuple[Slot, Convolution, bool] | None:
    """Fold the input where that applies: the folded input, its convolution, and whether that is a matmul."""
    spec = source.spec if source is not None else host
    assert spec is not None
    if not folds(conv, spec.memory_config, spec.layout, settings):
        return None
    folded_conv, matmul = folded(conv)
    fatal(
        conv.stride[0] <= conv.kernel[0] and conv.stride[1] <= conv.kernel[1],
        "Conv2D kernel stride folding: Stride must be less than or equal to kernel size",
    )
    current = source or planner.allocate(Spec(spec.shape, spec.dtype, spec.layout, DRAM_MEMORY_CONFIG))
    if len(spec.shape) == 4 and (spec.shape[1] != conv.height or spec.shape[2] != conv.width):
        image = Shape((conv.batch, conv.height, conv.width, conv.in_channels))
        reshaped = plan_reshape(planner, current, image, image)
        _forget(planner, current, reshaped, source)
        current = reshaped
    result = plan_fold_of_patches(planner, current, conv.stride, (*conv.padding, 0, 0), False, None)
    _forget(planner, current, result, source)
    if source is not None and settings.deallocate_activation and not spec.memory_config.is_dram():
        release(planner, source)
    return result, folded_conv, matmul


def _forget(planner: Planner, old: Slot, new: Slot, source: Slot | None) -> None:
    """A temporary that is no longer needed."""
    if old.buffer != new.buffer and (source is None or old.buffer != source.buffer):
        planner.free(old)
