# SPDX-License-Identifier: Apache-2.0
"""The layer of a softmax over each of several groups of channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.constants import matrix_on_device
from tt_cnn.builder.flow import Flow, interleaved_beside
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.lowering import whole_values
from tt_cnn.builder.rules import flags, instance, wholes


@dataclass(frozen=True, eq=False)
class GroupedSoftmaxConfiguration(Configuration):
    groups: int
    size: int
    """Channels of a group, which are neighbours."""
    memory_config: Any = None
    """None: interleaved, in the memory that the input is in."""
    deallocate_input: bool = False

    rules = (
        *wholes("groups", "size"),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("deallocate_input"),
    )


class TtGroupedSoftmax(Layer):
    """(..., groups * size) to the same, each group with the sum of one.

    A softmax over the whole row, divided by the sums of the groups, which are a product with a matrix of ones: to see
    the groups as rows of their own takes several times longer. A group whose largest value is more than 80 below the
    largest of the row is lost (0 / 0): the layer is for groups of one kind, such as the distributions of the sides of
    a box.
    """

    configuration: GroupedSoftmaxConfiguration
    configured_by = GroupedSoftmaxConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._ones: Any = None

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        if self._ones is None:
            ones = torch.block_diag(*[torch.ones(config.size, config.size)] * config.groups)
            self._ones = matrix_on_device(ones, self.device)
        place = config.memory_config or interleaved_beside(x)
        exact = whole_values(self.device)
        flow = Flow(x, config.deallocate_input).interleaved(place).in_tiles()
        flow.then(ttnn.softmax, -1, memory_config=place, compute_kernel_config=exact)
        sums = ttnn.matmul(flow.value, self._ones, memory_config=place, compute_kernel_config=exact)
        flow.then(ttnn.divide, sums, memory_config=place)
        ttnn.deallocate(sums)
        return flow.value
