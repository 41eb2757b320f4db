"""`ttnn.prepare_conv_transpose2d_weights` and `..._bias`: what a transposed convolution would prepare itself."""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from torch import Tensor as Values

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import Op2DSliceConfig, Settings
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall
from tt_cnn.virtual.ops.conv2d.prepare import PrepareConvBias, PrepareConvWeights
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.conv_transpose2d.numbers import turned
from tt_cnn.virtual.ops.conv_transpose2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.conv_transpose2d.slicing import plan_from_dram
from tt_cnn.virtual.ops.eltwise.calls import arguments_like
from tt_cnn.virtual.ops.operation import op
from tt_cnn.virtual.types.tensor_spec import Spec


@op("prepare_conv_transpose2d_weights")
class PrepareConvTranspose2dWeights(PrepareConvWeights):
    """Weights (in, out / groups, height, width) as the matrix that the transposed convolution reads."""

    _convolution = TransposedConvolution
    _plan_in_l1 = staticmethod(plan_in_l1)
    _plan_from_dram = staticmethod(plan_from_dram)

    arguments = arguments_like(  # type: ignore[assignment]
        PrepareConvWeights.arguments,
        renamed={"slice_config": "dram_slice_config"},
        added=(
            Parameter("mirror_kernel", Parameter.KEYWORD_ONLY, default=True, annotation="bool"),
            Parameter("output_padding", Parameter.KEYWORD_ONLY, default=(0, 0), annotation="Sequence[int]"),
        ),
    )

    def make_call(  # type: ignore[override]
        self, *, dram_slice_config: Op2DSliceConfig | None, mirror_kernel: bool, **given: Any
    ) -> ConvolutionCall:
        call = super().make_call(slice_config=dram_slice_config, **given)
        call.attributes["mirror"] = mirror_kernel
        return call

    def given(self, call: ConvolutionCall, device: MeshDevice) -> list[Values]:
        """Weights (in, out / groups, ...) as those of the convolution over the spread input."""
        groups, mirror = call.attributes["conv"].groups, call.attributes["mirror"]
        return [turned(values, groups, mirror) for values in super().given(call, device)]

    @staticmethod
    def _check_slices(conv: Convolution, source: Spec, settings: Settings) -> None:
        """What happens to sharded slices of an input when they may be resharded, but nothing says to what."""
        fatal(settings.shard_layout is not None or not settings.reshard_if_not_optimal, "bad optional access")


@op("prepare_conv_transpose2d_bias")
class PrepareConvTranspose2dBias(PrepareConvBias):
    """A bias (1, 1, 1, out) as the transposed convolution adds it. It has the weights' dtype."""

    _convolution = TransposedConvolution
    _plan_in_l1 = staticmethod(plan_in_l1)
    _plan_from_dram = staticmethod(plan_from_dram)

    arguments = arguments_like(PrepareConvBias.arguments, renamed={"slice_config": "dram_slice_config"})

    @staticmethod
    def _check_slices(conv: Convolution, source: Spec, settings: Settings) -> None:
        direct = conv.estimated()
        if not direct.is_matmul(settings):
            PrepareConvTranspose2dWeights._check_slices(conv, source, settings)
            PrepareConvBias._check_slices(direct, source, settings)
