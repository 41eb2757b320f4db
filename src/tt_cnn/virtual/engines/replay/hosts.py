# SPDX-License-Identifier: Apache-2.0
"""Host engines that run a graph in float32 with torch's threads: our kernels, OpenVINO and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch

from tt_cnn.virtual.engines.replay import ordinary
from tt_cnn.virtual.engines.replay.evaluate import evaluated
from tt_cnn.virtual.engines.replay.graph import Node, ordered, used_inputs
from tt_cnn.virtual.engines.replay.kernels.lowering import Lowering
from tt_cnn.virtual.engines.replay.packages import import_onnxruntime, openvino_core
from tt_cnn.virtual.engines.traced import contiguous

_OF_SIGMOIDS = (("Sigmoid",), ("silu",))


class Host(Protocol):
    """A compiled graph, called with the inputs that count. Outputs are the caller's own."""

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]: ...


class Kernels:
    """The project's own: convolutions after Winograd, everything fused that follows a window."""

    def __init__(self, outputs: Sequence[Node], threads: int) -> None:
        self._graph = list(outputs)
        self._lowering = Lowering(outputs, threads)
        self._outputs = self._lowering.outputs
        self._inputs = sorted((n for n in ordered(self._outputs) if n.kind == "input"), key=lambda n: n.params[0])

    @property
    def image_bytes(self) -> int:
        """Of the memory that holds images between its steps."""
        return self._lowering.image_bytes

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        lowering = self._lowering
        for node, value in zip(self._inputs, inputs, strict=True):
            lowering.values[id(node)] = contiguous(value)
        with torch.no_grad():
            for action in lowering.actions:
                action()
            if lowering.odd.value:  # values that no byte stands for
                lowering.odd.value = 0
                return [y.clone(memory_format=torch.contiguous_format) for y in evaluated(self._graph, inputs)]
            return [held().clone(memory_format=torch.contiguous_format) for held in lowering.results]


@lru_cache(maxsize=1)
def serialized(outputs: tuple[Node, ...], sigmoid_by_exponential: bool) -> bytes:
    """As ONNX, once for the two engines that want it. It is large: whoever has built engines clears the cache.

    Witnesses of what is no ordinary number come after the outputs, and sizes after those.
    """
    from tt_cnn.virtual.engines.replay.onnx_model import OnnxModel  # with onnx, which is optional

    nodes = (*outputs, *ordinary.witnesses(outputs), *ordinary.sizes(outputs))
    return OnnxModel(nodes, sigmoid_by_exponential).bytes()


class OrdinaryNumbers:
    """An engine for ordinary numbers, with torch for the others; what those are is said in `ordinary.py`.

    It keeps the graph for them, with its weights. `run` gives the outputs, their witnesses and sizes.
    """

    def __init__(self, outputs: Sequence[Node]) -> None:
        self._graph = list(outputs)
        self._sizes_from = len(outputs) + len(ordinary.witnesses(outputs))
        self._never = ordinary.has_others(outputs)
        self._finite = ordinary.finite(outputs)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if self._never:
            return self._by_torch(inputs)
        results = self.run(inputs)  # first, so that other threads' Python goes on meanwhile
        outputs, sizes = results[: len(self._graph)], results[self._sizes_from :]
        witnesses = results[len(self._graph) : self._sizes_from]
        watched = [y for y, is_finite in zip(outputs, self._finite, strict=True) if is_finite]
        seen = ordinary.are_finite([*witnesses, *watched]) and ordinary.are_large(sizes)
        return outputs if seen and ordinary.are_ordinary(inputs) else self._by_torch(inputs)

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        raise NotImplementedError

    def _by_torch(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            return [y.clone(memory_format=torch.contiguous_format) for y in evaluated(self._graph, inputs)]


class OnnxRuntime(OrdinaryNumbers):
    def __init__(self, outputs: Sequence[Node], threads: int) -> None:
        onnxruntime = import_onnxruntime()

        super().__init__(outputs)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._names = [f"input{i}" for i in used_inputs(outputs)]
        model = serialized(tuple(outputs), any(node.params[:1] in _OF_SIGMOIDS for node in ordered(outputs)))
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        feeds = {name: x.numpy() for name, x in zip(self._names, inputs, strict=True)}
        return [torch.from_numpy(y) for y in self._session.run(None, feeds)]


class OpenVino(OrdinaryNumbers):
    def __init__(self, outputs: Sequence[Node], threads: int) -> None:
        super().__init__(outputs)
        self._never |= ordinary.jumps_on_quotients(outputs)
        core = openvino_core()
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": str(threads),
            "NUM_STREAMS": "1",
        }
        model = core.read_model(serialized(tuple(outputs), False))
        self._request = core.compile_model(model, "CPU", settings).create_infer_request()

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        results: Any = self._request.infer([x.numpy() for x in inputs], share_inputs=True, share_outputs=False)
        return [torch.from_numpy(np.asarray(results[i])) for i in range(len(results))]


HOSTS: dict[str, Callable[[Sequence[Node], int], Host]] = {
    "kernels": Kernels,
    "openvino": OpenVino,
    "onnxruntime": OnnxRuntime,
}
