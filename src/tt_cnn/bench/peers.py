# SPDX-License-Identifier: Apache-2.0
"""What people run such models on otherwise, given the same torch model and the same threads."""

from __future__ import annotations

import copy
import io
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from tt_cnn.bench.subject import Outputs, Subject
from tt_cnn.virtual.engines.replay.packages import import_onnxruntime, openvino_core

WARM_UPS = 3
"""Runs until torch.compile has recorded its CUDA graph."""


class NotCapturable(RuntimeError):
    """What a model does on the way to its outputs cannot be part of a CUDA graph."""


class TorchPeer(Subject):
    """A torch module; images and outputs go through `device` where it is not the CPU."""

    def __init__(self, name: str, model: Callable[[torch.Tensor], Any], prepare: Any, device: str = "cpu") -> None:
        self.name, self.model, self.prepare, self.device = name, model, prepare, device
        self.kept: Any = None
        """What must live as long as the peer."""

    def run(self, batches: Sequence[torch.Tensor]) -> list[Outputs]:
        results = []
        with torch.inference_mode():
            for batch in batches:
                outputs = self.model(self.prepare(batch.to(self.device, copy=True)))
                several = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
                results.append(tuple(one.to("cpu", torch.float32, copy=True) for one in several))
        return results


class OnnxPeer(Subject):
    """An engine that reads the ONNX file which torch writes for the model."""

    def __init__(self, name: str, call: Callable[[Any], Sequence[Any]]) -> None:
        self.name, self.call = name, call

    def run(self, batches: Sequence[torch.Tensor]) -> list[Outputs]:
        return [tuple(torch.from_numpy(y.copy()) for y in self.call(batch.numpy().copy())) for batch in batches]


def _eager(model: nn.Module, example: torch.Tensor) -> Subject:
    return TorchPeer("torch eager", model, lambda x: x)


def _channels_last(model: nn.Module, example: torch.Tensor) -> Subject:
    other: Any = copy.deepcopy(model)
    other = other.to(memory_format=torch.channels_last)
    return TorchPeer("torch channels-last", other, lambda x: x.contiguous(memory_format=torch.channels_last))


def _compiled(model: nn.Module, example: torch.Tensor) -> Subject:
    """With weights frozen into the program, its quickest form for inference."""
    import torch._inductor.config as settings

    settings.freezing = True
    return TorchPeer("torch.compile", torch.compile(model), lambda x: x)


def _onnxruntime(model: nn.Module, example: torch.Tensor) -> Subject:
    onnxruntime = import_onnxruntime()

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(exported(model, example), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return OnnxPeer("ONNX Runtime", lambda x: session.run(None, {name: x}))


def _openvino(model: nn.Module, example: torch.Tensor) -> Subject:
    core = openvino_core()
    settings = {
        "INFERENCE_NUM_THREADS": str(torch.get_num_threads()),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(core.read_model(exported(model, example)), "CPU", settings).create_infer_request()

    def call(x: Any) -> list[Any]:
        results = request.infer([x], share_inputs=True, share_outputs=True)
        return [results[i] for i in range(len(results))]

    return OnnxPeer("OpenVINO", call)


# --- on a GPU: bfloat16 and channels last, as the replays have 16 bits too ------------------------------------------


def _half(model: nn.Module) -> nn.Module:
    other: Any = copy.deepcopy(model)
    other = other.to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    module: nn.Module = other
    return module


def _half_input(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16, memory_format=torch.channels_last)


def _cuda_eager(model: nn.Module, example: torch.Tensor) -> Subject:
    return TorchPeer("torch eager, cuda", _half(model), _half_input, "cuda")


def _cuda_graph(model: nn.Module, example: torch.Tensor) -> Subject:
    """What torch launches, captured once. Models that make tensors from Python numbers on the way cannot be."""
    module, static = _half(model), _half_input(example.cuda())
    with torch.inference_mode():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                module(static)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                outputs = module(static)
        except RuntimeError as error:
            raise NotCapturable(f"a CUDA graph cannot hold the model: {str(error).splitlines()[0]}") from error

    def replayed(x: torch.Tensor) -> Any:
        static.copy_(x)
        graph.replay()
        return outputs

    peer = TorchPeer("CUDA graph", replayed, _half_input, "cuda")
    peer.kept = module  # the graph reads its weights
    return peer


def _cuda_compiled(mode: str) -> Callable[[nn.Module, torch.Tensor], Subject]:
    def peer(model: nn.Module, example: torch.Tensor) -> Subject:
        import torch._inductor.config as settings

        settings.freezing = True
        compiled = torch.compile(_half(model), mode=mode)
        return TorchPeer(f"torch.compile {mode}, cuda", compiled, _half_input, "cuda")

    return peer


def exported(model: nn.Module, example: torch.Tensor) -> bytes:
    """The model as torch's own exporter writes it. The older exporter needs no further package."""
    file: Any = io.BytesIO()
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (example,), file, dynamo=False, opset_version=17)
    data: bytes = file.getvalue()
    return data


PEERS: dict[str, Callable[[nn.Module, torch.Tensor], Subject]] = {
    "torch": _eager,
    "channels-last": _channels_last,
    "compile": _compiled,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}
_NEEDS = {"onnxruntime": ("onnx", "onnxruntime"), "openvino": ("onnx", "openvino")}
"""Packages of `tt-cnn[cpu]`; torch writes the ONNX file with `onnx`."""
CUDA_PEERS: dict[str, Callable[[nn.Module, torch.Tensor], Subject]] = {
    "cuda": _cuda_eager,
    "cuda-graph": _cuda_graph,
    "cuda-reduce-overhead": _cuda_compiled("reduce-overhead"),
    "cuda-max-autotune": _cuda_compiled("max-autotune"),
}


def peers_beside(engine: str) -> list[str]:
    """The names of what an engine's replays are compared with."""
    return list(CUDA_PEERS if engine == "cuda" else PEERS)


def missing_packages(name: str) -> tuple[str, ...]:
    """What a peer needs and is not installed. Nothing is imported to find out."""
    return tuple(one for one in _NEEDS.get(name, ()) if find_spec(one) is None)


def create_peer(name: str, model: nn.Module, example: torch.Tensor) -> Subject:
    """A peer, compiled and warmed up."""
    known = PEERS | CUDA_PEERS
    if name not in known:
        raise ValueError(f"there is no peer {name!r}; there are {', '.join(known)}")
    if name in CUDA_PEERS and not torch.cuda.is_available():
        raise RuntimeError(f"the peer {name!r} runs on a GPU, but torch sees no CUDA device; choose among the others")
    start = time.perf_counter()
    peer = known[name](model, example)
    for _ in range(WARM_UPS if name in CUDA_PEERS else 1):
        peer.run([example])
    peer.compile_seconds = time.perf_counter() - start
    return peer
