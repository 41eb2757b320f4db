"""`ttnn.avg_pool2d`."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.ops.conv2d.config import Op2DSliceConfig
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.ops.pool.max_pool2d import Pooling
from tt_cnn.virtual.ops.pool.problem import Kind, Pool, Wish
from tt_cnn.virtual.ops.sliding_window.window import four_paddings, pair
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.memory_config import MemoryConfig


@op("avg_pool2d")
class AvgPool2d(Pooling):
    """The mean of each window."""

    def arguments(
        self,
        input_tensor: Tensor,
        batch_size: int,
        input_h: int,
        input_w: int,
        channels: int,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        memory_config: MemoryConfig | None = None,
        dram_slice_config: Op2DSliceConfig | None = None,
        applied_shard_scheme: TensorMemoryLayout | None = None,
        compute_kernel_config: WormholeComputeKernelConfig | None = None,
        deallocate_input: bool = False,
        reallocate_halo_output: bool = True,
        dtype: DataType = DataType.BFLOAT16,
        output_layout: Layout = Layout.ROW_MAJOR,
        config_tensor_in_dram: bool = False,
    ) -> Call:
        pool = Pool(
            Kind.AVERAGE,
            batch_size,
            input_h,
            input_w,
            channels,
            pair(kernel_size, "kernel_size"),
            pair(stride, "stride"),
            four_paddings(padding),
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor=divisor_override,
        )
        wish = Wish(
            output_layout,
            dtype,
            memory_config,
            applied_shard_scheme,
            False,
            deallocate_input,
            reallocate_halo_output,
            config_tensor_in_dram,
            compute_kernel_config,
        )
        slicing = dram_slice_config.frozen() if dram_slice_config is not None else None
        return Call([input_tensor], pool=pool, wish=wish, slicing=slicing)
