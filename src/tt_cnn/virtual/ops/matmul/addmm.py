# SPDX-License-Identifier: Apache-2.0
"""`addmm`: a matrix added to a product, both scaled."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Operation, op
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType

_DTYPES = (DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B)


@op("addmm")
class Addmm(Operation):
    """A call of `matmul`, then of `multiply` and `add` in place, as the library makes them."""

    def arguments(
        self,
        input_tensor: Tensor,
        mat1_tensor: Tensor,
        mat2_tensor: Tensor,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        memory_config: Any = None,
        dtype: Any = None,
        program_config: Any = None,
        compute_kernel_config: Any = None,
        core_grid: Any = None,
        output_tile: Any = None,
        optional_output_tensor: Tensor | None = None,
    ) -> Call:
        fatal(alpha != 0.0, "alpha parameter cannot be 0")
        fatal(output_tile is None, "output_tile must not be provided")
        tensors = {"mat1_tensor": mat1_tensor, "mat2_tensor": mat2_tensor}
        if beta != 0.0:
            shape = (mat1_tensor.shape[0], mat2_tensor.shape[1])
            fatal(
                (input_tensor.shape[0], input_tensor.shape[1]) == shape,
                "input_tensor must have shape matching one of result of mat1_tensor @ mat2_tensor",
            )
            tensors = {"input_tensor": input_tensor, **tensors}
        for name, tensor in tensors.items():
            fatal(
                tensor.dtype in _DTYPES,
                f"only ttnn.bfloat16, ttnn.float32 and ttnn.bfloat8_b types are supported for {name}",
            )
        call = Call([input_tensor, mat1_tensor, mat2_tensor], alpha=alpha, beta=beta)
        call.attributes["options"] = {
            "memory_config": memory_config,
            "dtype": dtype,
            "program_config": program_config,
            "compute_kernel_config": compute_kernel_config,
            "core_grid": core_grid,
            "optional_output_tensor": optional_output_tensor,
        }
        return call

    def shortcut(self, call: Call) -> Any:
        """Commands of other ops only."""
        added, left, right = call.tensors
        alpha, beta = call.attributes["alpha"], call.attributes["beta"]
        result = OPERATIONS["matmul"](left, right, **call.attributes["options"])
        if alpha != 1.0:
            OPERATIONS["multiply_"](result, alpha)
        if beta != 0.0:
            OPERATIONS["add_"](result, added if beta == 1.0 else OPERATIONS["multiply"](added, beta))
        return result
