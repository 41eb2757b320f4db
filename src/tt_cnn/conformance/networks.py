# SPDX-License-Identifier: Apache-2.0
"""Short networks with numbers: each step on its recorded inputs (`values`), and the last output of all (`error`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tt_cnn.conformance.chain_calls import Image, Step, Tensors, pool_window, run_step
from tt_cnn.conformance.corpus import Corpus, Record
from tt_cnn.conformance.making import dtype, look_up
from tt_cnn.conformance.reference import activated, flattened, unary
from tt_cnn.conformance.tally import Tally
from tt_cnn.conformance.value_calls import converted, converted_weight, host
from tt_cnn.conformance.values import computing_card, guarded, judge_error, judge_values, read_back
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import DataType, Layout


class Network:
    """A recorded network: its numbers by step, and what float32 torch makes of them."""

    def __init__(self, corpus: Corpus, record: Record) -> None:
        self.case = record.case
        self._arrays = corpus.arrays
        self._key = record.case["id"]
        n, h, w, c = record.case["input"]
        self.image: Image = (n, h, w, c)
        self.input = self._numbers("input").reshape(1, 1, n * h * w, c)
        self.steps: list[Step] = record.case["steps"]

    def _numbers(self, name: str) -> torch.Tensor:
        """bfloat16 bit patterns as float32 numbers."""
        bits = self._arrays[f"{self._key}.{name}"].astype(np.uint32) << 16
        return torch.from_numpy(bits.view(np.float32))

    def output(self, number: int) -> torch.Tensor:
        return self._numbers(f"out{number}")

    def parameters(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._numbers(f"w{number}"), self._numbers(f"b{number}").reshape(1, 1, 1, -1)

    def reference(self, number: int, inputs: list[torch.Tensor], image: Image, convert: bool) -> torch.Tensor:
        """A step in float32; with `convert`, on parameters as the card holds them."""
        step = self.steps[number]
        options: dict[str, Any] = step["args"]
        name = step["op"]
        if name == "add":
            return inputs[0] + inputs[1]
        if name not in ("conv2d", "max_pool2d"):
            return unary(name)(inputs[0])
        n, h, w, c = image
        x = inputs[0].reshape(n, h, w, c).permute(0, 3, 1, 2)
        if name == "max_pool2d":
            return flattened(F.max_pool2d(x, *pool_window(options)))
        weight, bias = self.parameters(number)
        if convert:
            kind = dtype(options["weights_dtype"])
            weight, bias = converted_weight(weight, kind), converted(bias, kind)
        y = F.conv2d(x, weight, bias.flatten(), stride=options["stride"], padding=options["kernel"] // 2)
        return flattened(activated(y, options["activation"]))


def replay_network(corpus: Corpus, record: Record, tally: Tally, ops: Collection[str]) -> None:
    network = Network(corpus, record)
    for step in network.steps:
        look_up(step["op"])
    _each_step(network, record, tally, ops)
    verdict = guarded("network", lambda: _last_output(network, record))
    tally.add("network", record, {"error": verdict})


def _start(network: Network, card: MeshDevice) -> Tensors:
    first = ttnn.from_torch(network.input, DataType.BFLOAT16, layout=Layout.ROW_MAJOR, device=card)
    assert first is not None
    return Tensors(first, network.image)


def _run(network: Network, card: MeshDevice, state: Tensors, number: int) -> Tensor:
    step = network.steps[number]
    weight, bias = (host(p) for p in network.parameters(number)) if step["op"] == "conv2d" else (None, None)
    options = step["args"] | {"reshard_if_not_optimal": True}
    inputs, images = [state.tensors[i] for i in step["in"]], [state.images[i] for i in step["in"]]
    return run_step(card, step | {"args": options}, inputs, images, lambda *_: (weight, bias))  # type: ignore[arg-type]


def _each_step(network: Network, record: Record, tally: Tally, ops: Collection[str]) -> None:
    """Every step computes on recorded numbers: its output is judged, then overwritten with the recorded one."""
    recorded = {0: network.input}
    with computing_card(record.card, "exact") as card:
        state = _start(network, card)
        for number, step in enumerate(network.steps):
            made: list[Tensor] = []

            def judge(number: int = number, step: Step = step, made: list[Tensor] = made) -> Any:
                made.append(_run(network, card, state, number))
                inputs = [recorded[i] for i in step["in"]]
                reference = network.reference(number, inputs, state.images[step["in"][0]], convert=True)
                return judge_values(read_back(made[0]), network.output(number), reference)

            verdict = guarded(step["op"], judge)
            if not ops or step["op"] in ops:
                tally.add(step["op"], record, {"values": verdict}, number)
            if not made:
                return
            recorded[step["out"]] = network.output(number)
            _overwrite(made[0], network.output(number))
            state.finish(step, made[0])


def _overwrite(tensor: Tensor, numbers: torch.Tensor) -> None:
    source = ttnn.from_torch(numbers.reshape(tuple(tensor.shape)), tensor.dtype, layout=tensor.layout)
    assert source is not None
    ttnn.copy_host_to_device_tensor(source, tensor)


def _last_output(network: Network, record: Record) -> Any:
    with computing_card(record.card, "device") as card:
        state = _start(network, card)
        truths = {0: network.input}
        for number, step in enumerate(network.steps):
            output = _run(network, card, state, number)
            inputs = [truths[i] for i in step["in"]]
            truths[step["out"]] = network.reference(number, inputs, state.images[step["in"][0]], convert=False)
            state.finish(step, output)
        last = len(network.steps) - 1
        return judge_error(read_back(output), network.output(last), truths[network.steps[last]["out"]], output.dtype)
