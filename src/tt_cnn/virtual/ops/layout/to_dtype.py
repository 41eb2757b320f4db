# SPDX-License-Identifier: Apache-2.0
"""to_dtype: another dtype on the host."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import Call, Operation, op
from tt_cnn.virtual.tensors.conversion import host_convert
from tt_cnn.virtual.tensors.storage import CARRIER, HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.tensor_spec import Spec


@op("to_dtype")
class ToDtype(Operation):
    def arguments(self, tensor: Tensor, dtype: DataType) -> Call:
        return Call([tensor], dtype=dtype)

    def shortcut(self, call: Call) -> Tensor:
        tensor, dtype = call.tensors[0], call.attributes["dtype"]
        fatal(tensor._host is not None, f"Expected Tensor with HostStorage, got {tensor.storage_type().native}")
        if tensor.dtype is dtype:
            return tensor
        spec = tensor.spec
        layout = Layout.TILE if dtype.is_block_float else spec.layout
        made = Spec(spec.shape, dtype, layout, spec.memory_config, spec.alignment)
        fatal(
            made.physical == spec.physical,
            f"to_dtype: Converting layout to {layout.native} implicitly changed physical shape from {spec.physical} to "
            f"{made.physical} due to alignment constraints. This is currently unsupported. Please pad the tensor "
            "explicitly before conversion.",
        )
        values = [host_convert(v, dtype).to(CARRIER[dtype]) for v in tensor.host_values(self.name)]
        return Tensor.on_host(made, HostStorage(values))
