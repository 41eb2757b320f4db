# SPDX-License-Identifier: Apache-2.0
"""The layer that adds two tensors: the end of a residual block."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.activations import activated
from tt_cnn.builder.add_configuration import AddConfiguration
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer, telling
from tt_cnn.builder.naming import named


class TtAdd(Layer):
    """x + y; both are given back, but for those that are kept, or that the sum took the place of."""

    configuration: AddConfiguration
    configured_by = AddConfiguration

    def __call__(self, x: Any, y: Any, kept: Any = None) -> Any:  # type: ignore[override]
        """`kept` is one of them, or a sequence of those that are read later.

        The sum is where x is, or y where x alone is kept; where both are, it is never in place.
        """
        self._check_input(x)
        self._check_input(y)
        held = tuple(kept) if isinstance(kept, (list, tuple)) else (kept,)
        keeps = [any(one is summand for one in held) for summand in (x, y)]
        with named(self.name), telling(self.name):
            summands = [Flow(each, not keep) for each, keep in zip((x, y), keeps, strict=True)]
            a, b = (summand.in_tiles().value for summand in summands)
            own = [keep and tiles is given for keep, tiles, given in zip(keeps, (a, b), (x, y), strict=True)]
            total = self._sum(a, b, model=b if own == [True, False] else a, in_place=not all(own))
            for summand in summands:
                if summand.value is not total:
                    summand.end()
        return total

    def _sum(self, x: Any, y: Any, model: Any, in_place: bool) -> Any:
        config = self.configuration
        fused = config.activation is not None and config.fuse_activation
        own: dict[str, Any] = {"activations": [config.activation]} if fused else {}
        if config.in_place and in_place:
            ttnn.add(x, y, output_tensor=model, **own)
            total = model
        else:
            memory_config = config.memory_config or model.memory_config()
            total = ttnn.add(x, y, memory_config=memory_config, dtype=config.output_dtype, **own)
        return total if fused or config.activation is None else activated(total, config.activation)
