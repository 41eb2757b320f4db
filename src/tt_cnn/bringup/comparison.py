# SPDX-License-Identifier: Apache-2.0
"""Every layer of a brought-up model beside the torch value that it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind

from tt_cnn.bringup.own_lowerings import registered_modules_closed
from tt_cnn.bringup.torch_graph import exported_program
from tt_cnn.models.brought_up import TorchShape
from tt_cnn.testing.layer_report import LayerComparison, LayerReport
from tt_cnn.testing.listening import listening
from tt_cnn.testing.pcc import agreement, max_error

LAYER_LOSS = 0.01
"""How much PCC one layer may lose beside what it is given, where its tuned precision does not lose more."""


@dataclass(frozen=True)
class Point:
    """Where a layer of the model can be compared with torch."""

    node: str
    """The node of the exported graph whose value the layer gives."""
    shape: TorchShape
    reads: tuple[str, ...] = ()
    """The layers whose outputs it is given; empty for the first."""
    loss: float = LAYER_LOSS
    """How much PCC it may lose beside them."""


def torch_values(reference: nn.Module, inputs: Sequence[torch.Tensor], names: set[str]) -> dict[str, torch.Tensor]:
    """Values of nodes of the exported graph, by their names. The model's ops may work in place, so it gets copies."""
    reference.eval()
    inputs = [each.clone() for each in inputs]
    program = exported_program(reference, inputs)
    with torch.no_grad(), registered_modules_closed(reference, inputs):
        noting = _Noting(program.graph_module, names)
        noting.run(*_arguments(program, inputs))
    return noting.found


def _arguments(program: torch.export.ExportedProgram, inputs: Sequence[torch.Tensor]) -> list[Any]:
    """Of the exported graph: parameters, buffers and constants by their names, and the model's inputs."""
    given = iter(inputs)
    held = {**program.constants, **program.state_dict}
    return [
        next(given) if spec.kind == InputKind.USER_INPUT else held[str(spec.target)]
        for spec in program.graph_signature.input_specs
    ]


class _Noting(fx.Interpreter):
    def __init__(self, module: Any, names: set[str]) -> None:
        super().__init__(module)
        self.names, self.found = names, dict[str, torch.Tensor]()

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.name in self.names and isinstance(value, torch.Tensor):
            self.found[n.name] = value.detach().clone()  # ops after it may work in place
        return value


def compare_points(
    reference: nn.Module,
    model: Any,
    images: Any,
    points: Mapping[str, Point],
    threshold: float = 0.99,
) -> LayerReport:
    """PCC of each layer's output in a run of the whole model, in the order of the layers."""
    given = images if isinstance(images, tuple) else (images,)
    expected = torch_values(reference, given, {point.node for point in points.values()})
    outputs: dict[str, torch.Tensor] = {}
    with listening(model, list(points), outputs):
        model(model.place(images))
    report = LayerReport(threshold)
    for name, point in points.items():
        if name in outputs and point.node in expected:
            report.layers.append(_compared(name, point, outputs[name], expected[point.node], threshold))
    if not report.layers:
        raise ValueError("no layer of the model was found in the exported graph")
    return report


def _compared(
    name: str, point: Point, found: torch.Tensor, expected: torch.Tensor, threshold: float
) -> LayerComparison:
    node, order = point.node, point.shape.in_memory
    sizes = [point.shape.shape[dim] for dim in order]
    if found.numel() != expected.numel():
        return LayerComparison(name, node, 0.0, float("inf"), False, f"shape {tuple(found.shape)}")
    actual = found.reshape(sizes).permute([order.index(dim) for dim in range(len(order))])
    value = agreement(expected.float(), actual)
    return LayerComparison(name, node, value, max_error(expected.float(), actual), value >= threshold)


def losses(report: LayerReport, points: Mapping[str, Point]) -> dict[str, float]:
    """What each layer loses itself: the PCC of the worst of its inputs, less its own.

    In a deep network errors add up, so that the PCC of a late layer says little of that layer.
    """
    pcc = {layer.name: layer.pcc for layer in report.layers}
    return {
        name: min((pcc[each] for each in points[name].reads if each in pcc), default=1.0) - value
        for name, value in pcc.items()
    }


def explain(report: LayerReport, points: Mapping[str, Point]) -> str:
    """Which layer to look at: the one that loses most by itself."""
    found = losses(report, points)
    worst = max(found, key=lambda name: found[name])
    pcc = {layer.name: layer.pcc for layer in report.layers}
    inputs = ", ".join(f"{each} {pcc[each]:.5f}" for each in points[worst].reads if each in pcc) or "the model's input"
    return f"{worst} loses most by itself: PCC {pcc[worst]:.5f}, given {inputs}"
