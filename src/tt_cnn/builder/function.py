"""The layer that calls any op of TT-NN by its name, for what no other layer is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import free
from tt_cnn.builder.configuration import Configuration
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
    memory_config: Any = None
    """Where the result is put. None: interleaved, in the memory that the first tensor is in."""
    deallocate_input: bool = False
    """Whether the first tensor is given back."""

    rules = (
        Rule("function", lambda c: callable(getattr(ttnn, c.function, None)), "the name of an op of TT-NN"),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("in_rows", "deallocate_input"),
    )


class TtFunction(Layer):
    """Tensors come interleaved to the op: what it does with shards is its own affair, and not the same for all ops."""

    configuration: FunctionConfiguration
    configured_by = FunctionConfiguration

    def __call__(self, x: Any, *others: Any) -> Any:  # type: ignore[override]
        """`others` are tensors or numbers; the op gets them in this order."""
        tensors = [each for each in (x, *others) if isinstance(each, ttnn.Tensor)]
        for tensor in tensors:
            self._check_input(tensor)
        with named(self.name), telling(self.name):
            return self._call((x, *others))

    def _call(self, arguments: tuple[Any, ...]) -> Any:
        config = self.configuration
        first = next(each for each in arguments if isinstance(each, ttnn.Tensor))
        memory = config.memory_config or interleaved_beside(first)
        prepared = [self._prepared_input(each, memory) for each in arguments]
        result = getattr(ttnn, config.function)(*prepared, memory_config=memory, **dict(config.keywords))
        for given, used in zip(arguments, prepared, strict=True):
            if used is not given:
                free(used)
        if config.deallocate_input and result is not first:
            free(first)
        return result

    def _prepared_input(self, x: Any, memory: Any) -> Any:
        if not isinstance(x, ttnn.Tensor):
            return x
        wanted = ttnn.ROW_MAJOR_LAYOUT if self.configuration.in_rows else ttnn.TILE_LAYOUT
        y = ttnn.to_memory_config(x, memory) if x.is_sharded() else x
        if y.layout == wanted:
            return y
        z = ttnn.to_layout(y, wanted)
        if y is not x:
            free(y)
        return z


def interleaved_beside(x: Any) -> Any:
    """The memory that a tensor is in, without its shards."""
    in_dram = x.memory_config().buffer_type == ttnn.BufferType.DRAM
    return ttnn.DRAM_MEMORY_CONFIG if in_dram else ttnn.L1_MEMORY_CONFIG
