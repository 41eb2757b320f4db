# SPDX-License-Identifier: Apache-2.0
"""The layer that calls any op of TT-NN by its name, for what no other layer is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.flow import Flow, interleaved_beside, same_memory
from tt_cnn.builder.layer import Layer, telling
from tt_cnn.builder.naming import named
from tt_cnn.builder.rules import Rule, flags, instance


@dataclass(frozen=True, eq=False)
class FunctionConfiguration(Configuration):
    function: str
    """`ttnn.subtract` is `subtract`."""
    keywords: tuple[tuple[str, Any], ...] = ()
    """Names and values of further arguments, the same in every call."""
    in_rows: bool = False
    """Whether the op takes rows; tensors are brought to tiles else."""
    precise: bool = False
    """Whether the op is to add up in float32 and cut nothing off its operands, for ops that let one say so."""
    memory_config: Any = None
    """Where the result is put. None: interleaved, in the memory that the first tensor is in."""
    deallocate_input: bool = False
    """Whether the first tensor is given back; one that comes twice is not."""

    rules = (
        Rule("function", lambda c: callable(getattr(ttnn, c.function, None)), "the name of an op of TT-NN"),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("in_rows", "precise", "deallocate_input"),
    )


class TtFunction(Layer):
    """Tensors come interleaved to the op: what it does with shards is its own affair, and not the same for all ops."""

    configuration: FunctionConfiguration
    configured_by = FunctionConfiguration

    def __call__(self, x: Any, *others: Any) -> Any:
        """Each is a tensor or a number; the op gets them in this order."""
        arguments = (x, *others)
        for tensor in (each for each in arguments if isinstance(each, ttnn.Tensor)):
            self._check_input(tensor)
        with named(self.name), telling(self.name):
            return self._call(arguments)

    def _call(self, arguments: tuple[Any, ...]) -> Any:
        config = self.configuration
        first = next(each for each in arguments if isinstance(each, ttnn.Tensor))
        memory = config.memory_config or interleaved_beside(first)
        once = sum(each is first for each in arguments) == 1
        given = [
            Flow(each, config.deallocate_input and each is first and once) if isinstance(each, ttnn.Tensor) else each
            for each in arguments
        ]
        tensors = [each for each in given if isinstance(each, Flow)]
        for tensor in tensors:
            tensor.interleaved(memory)
            if config.in_rows:
                tensor.in_rows()
            else:
                tensor.in_tiles()
        taken = [each.value if isinstance(each, Flow) else each for each in given]
        keywords = dict(config.keywords)
        if config.precise:
            keywords["compute_kernel_config"] = _precise(self.device)
        result = getattr(ttnn, config.function)(*taken, memory_config=memory, **keywords)
        for tensor in tensors:
            if not same_memory(tensor.value, result):
                tensor.end()
        return result


def _precise(device: Any) -> Any:
    """Exponentials by their series, and not by the quick guess at their bits."""
    return ttnn.init_device_compute_kernel_config(
        device.arch(),
        math_fidelity=ttnn.MathFidelity.HiFi4,
        math_approx_mode=False,
        fp32_dest_acc_en=True,
        packer_l1_acc=False,
    )
