# SPDX-License-Identifier: Apache-2.0
"""`ttnn.avg_pool2d`."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.ops.conv2d.config import Op2DSliceConfig
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.ops.pool.max_pool2d import Pooling
from tt_cnn.virtual.ops.pool.problem import Kind
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.memory_config import MemoryConfig


@op("avg_pool2d")
class AvgPool2d(Pooling):
    """The mean of each window."""

    kind = Kind.AVERAGE

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
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)
