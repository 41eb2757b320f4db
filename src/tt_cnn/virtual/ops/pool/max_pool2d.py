# SPDX-License-Identifier: Apache-2.0
"""`ttnn.max_pool2d`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tt_cnn.virtual.ops.conv2d.config import Op2DSliceConfig, Slicing
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.pool.alternatives import alternatives
from tt_cnn.virtual.ops.pool.paths import plan_pool, pool_numbers
from tt_cnn.virtual.ops.pool.problem import Kind, Pool, Wish
from tt_cnn.virtual.ops.sliding_window.window import four_paddings, pair
from tt_cnn.virtual.planning.alternatives import Alternative, CallSite
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.memory_config import MemoryConfig


class Pooling(Operation):
    """Max and average pools: one plan, one way to compute."""

    kind: Kind
    plan = staticmethod(plan_pool)

    def make_call(
        self,
        *,
        input_tensor: Tensor,
        memory_config: MemoryConfig | None,
        dram_slice_config: Op2DSliceConfig | None,
        applied_shard_scheme: TensorMemoryLayout | None,
        deallocate_input: bool,
        **given: Any,
    ) -> Call:
        """From TT-NN's arguments by name; those that not every pool has stand in `given`."""
        wish = Wish(
            given.get("output_layout", Layout.ROW_MAJOR),
            given.get("dtype", DataType.BFLOAT16),
            memory_config,
            applied_shard_scheme,
            given.get("return_indices", False),
            deallocate_input,
            given["reallocate_halo_output"],
            given.get("config_tensor_in_dram", False),
            given.get("compute_kernel_config"),
        )
        slicing = dram_slice_config.frozen() if dram_slice_config is not None else None
        return Call([input_tensor], pool=self._problem(given), wish=wish, slicing=slicing)

    def _problem(self, given: dict[str, Any]) -> Pool:
        return Pool(
            self.kind,
            given["batch_size"],
            given["input_h"],
            given["input_w"],
            given["channels"],
            pair(given["kernel_size"], "kernel_size"),
            pair(given["stride"], "stride"),
            four_paddings(given["padding"]),
            pair(given.get("dilation", (1, 1)), "dilation"),
            given["ceil_mode"],
            count_include_pad=given.get("count_include_pad", True),
            divisor=given.get("divisor_override"),
        )

    def alternatives(self, site: CallSite) -> Iterator[Alternative]:
        return alternatives(site)

    def numbers(
        self, context: Context, x: torch.Tensor, pool: Pool, wish: Wish, slicing: Slicing | None
    ) -> list[torch.Tensor]:
        return pool_numbers(context, context.logical(x), pool, wish)


@op("max_pool2d")
class MaxPool2d(Pooling):
    """The largest value of each window; with `return_indices` also where it stands in its image."""

    kind = Kind.MAX

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
        dilation: Sequence[int],
        ceil_mode: bool = False,
        *,
        memory_config: MemoryConfig | None = None,
        dram_slice_config: Op2DSliceConfig | None = None,
        applied_shard_scheme: TensorMemoryLayout | None = None,
        deallocate_input: bool = False,
        reallocate_halo_output: bool = True,
        return_indices: bool = False,
        dtype: DataType = DataType.BFLOAT16,
        output_layout: Layout = Layout.ROW_MAJOR,
        config_tensor_in_dram: bool = False,
    ) -> Call:
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)

    def results(self, outputs: list[Tensor], call: Call) -> Any:
        return (outputs[0], outputs[1]) if call.attributes["wish"].indices else outputs[0]
