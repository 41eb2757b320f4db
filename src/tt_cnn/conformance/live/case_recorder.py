# SPDX-License-Identifier: Apache-2.0
"""Asks the real library calls that are written as data, each on a clean card: `python -m ... CASES.json RESULTS.jsonl`.

Runs under the interpreter of the real library; cases and results are those of a corpus (`conformance.written_calls`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import torch

from tt_cnn import runtime
from tt_cnn.conformance.live.graph_reading import Node, read_steps, with_dry_run
from tt_cnn.conformance.live.recording import LiveStep
from tt_cnn.conformance.live.watching import peak_of_graph

Case = dict[str, Any]
L1_SMALL = 65536
"""`l1_small_size` of all corpora."""
_SHARDED = {"height": "HEIGHT_SHARDED", "width": "WIDTH_SHARDED", "block": "BLOCK_SHARDED"}


class Asking:
    """Makes the calls of cases on a card."""

    def __init__(self, ttnn: Any) -> None:
        self.ttnn = ttnn

    def answer(self, case: Case) -> Case:
        """The result of a case; what only a dry run tells is added from a second call on another clean card."""
        result, graph = self._on_clean_card(case, self.ttnn.graph.RunMode.NORMAL)
        if result["status"] == "input_error":
            return result
        steps, calls = read_steps(graph)
        if result["status"] == "ok":
            dry_result, dry = self._on_clean_card(case, self.ttnn.graph.RunMode.NO_DISPATCH)
            if dry_result["status"] == "ok":
                with_dry_run(steps, calls, read_steps(dry)[0], ())
                result["peak"] = peak_of_graph(self.ttnn, dry)
        return result | {"ops": [_step(step) for step in steps]}

    def _on_clean_card(self, case: Case, mode: Any) -> tuple[Case, list[Node]]:
        device = self.ttnn.open_device(device_id=0, l1_small_size=L1_SMALL)
        try:
            device.disable_and_clear_program_cache()
            try:
                inputs = [self._input(given, device) for given in case["inputs"]]
            except Exception as error:
                return {"status": "input_error", "message": _message(error)[0]}, []
            return self._call(case, inputs, device, mode)
        finally:
            self.ttnn.close_device(device)

    def _call(self, case: Case, inputs: list[Any], device: Any, mode: Any) -> tuple[Case, list[Node]]:
        described = [self._describe(tensor) for tensor in inputs]
        function = self._named(case["op"])
        args = [self._made(one, inputs, device) for one in case["args"]]
        kwargs = {name: self._made(one, inputs, device) for name, one in case["kwargs"].items()}
        self.ttnn.graph.begin_graph_capture(mode)
        try:
            returned = function(*args, **kwargs)
        except Exception as error:
            graph = self.ttnn.graph.end_graph_capture() or []
            message, where = _message(error)
            refused = {"status": "error", "message": message, "where": where, "type": type(error).__name__}
            return refused | {"inputs": described}, graph
        graph = self.ttnn.graph.end_graph_capture() or []
        values = list(_flat(returned))
        tensors = [self._describe(one) for one in values if isinstance(one, self.ttnn.Tensor)]
        result: Case = {"status": "ok", "inputs": described}
        if tensors:
            result["output"] = tensors[0]
        if tensors[1:]:
            result["more"] = tensors[1:]
        rest = [one for one in values if not isinstance(one, self.ttnn.Tensor)]
        return result | ({"rest": rest} if rest else {}), graph

    # --- making what a call is given ------------------------------------------------------------------------------

    def _named(self, name: str) -> Any:
        return reduce(getattr, name.split("."), self.ttnn)

    def _input(self, given: Case, device: Any) -> Any:
        ttnn = self.ttnn
        dtype, layout = getattr(ttnn, given["dtype"]), getattr(ttnn.Layout, given["layout"])
        if given.get("host"):
            return ttnn.from_torch(torch.zeros(given["shape"]), dtype=dtype, layout=layout)
        memory = self._memory(given["memory"])
        return ttnn.allocate_tensor_on_device(ttnn.Shape(given["shape"]), dtype, layout, device, memory)

    def _memory(self, memory: Case) -> Any:
        ttnn, kind = self.ttnn, memory["kind"]
        if kind in ("dram", "l1"):
            return getattr(ttnn, f"{kind.upper()}_MEMORY_CONFIG")
        layout = getattr(ttnn.TensorMemoryLayout, _SHARDED[kind])
        buffer = getattr(ttnn.BufferType, memory.get("buffer", "L1"))
        if "shard" not in memory:
            return ttnn.MemoryConfig(layout, buffer)
        ranges = [ttnn.CoreRange(ttnn.CoreCoord(*a), ttnn.CoreCoord(*b)) for a, b in memory["ranges"]]
        orientation = getattr(ttnn.ShardOrientation, memory.get("orient", "ROW_MAJOR"))
        return ttnn.MemoryConfig(
            layout, buffer, ttnn.ShardSpec(ttnn.CoreRangeSet(ranges), memory["shard"], orientation)
        )

    def _made(self, value: Any, inputs: list[Any], device: Any) -> Any:
        if isinstance(value, list):
            return [self._made(one, inputs, device) for one in value]
        if not isinstance(value, dict):
            return value

        def all_of(named: dict[str, Any]) -> dict[str, Any]:
            return {name: self._made(one, inputs, device) for name, one in named.items()}

        forms: dict[str, Callable[[], Any]] = {
            "$t": lambda: inputs[value["$t"]],
            "$mem": lambda: self._memory(value["$mem"]),
            "$e": lambda: self._named(value["$e"]),
            "$o": lambda: self._named(value["$o"])(*self._made(value["a"], inputs, device), **all_of(value["k"])),
            "$ck": lambda: self.ttnn.init_device_compute_kernel_config(device.arch(), **all_of(value["$ck"])),
            "$dev": lambda: device,
            "$slice": lambda: slice(*value["$slice"]),
            "$ell": lambda: ...,
            "$tuple": lambda: tuple(self._made(value["$tuple"], inputs, device)),
        }
        return next(make for form, make in forms.items() if form in value)()

    def _describe(self, tensor: Any) -> Case:
        spec: Case = {
            "shape": list(tensor.shape),
            "padded_shape": list(tensor.padded_shape),
            "dtype": tensor.dtype.name,
            "layout": tensor.layout.name,
        }
        if tensor.storage_type() == self.ttnn.StorageType.HOST:
            return spec | {"host": True}
        config = tensor.memory_config()
        spec |= {"memory_layout": config.memory_layout.name, "buffer_type": config.buffer_type.name}
        if tensor.is_allocated():
            spec["address"] = tensor.buffer_address()
        shard = config.shard_spec
        if shard is not None:
            ranges = [[[r.start.x, r.start.y], [r.end.x, r.end.y]] for r in shard.grid.ranges()]
            spec |= {"shard_shape": list(shard.shape), "orientation": shard.orientation.name, "grid": ranges}
        return spec


def _step(step: LiveStep) -> Case:
    return {
        "op": step.op,
        "factory": step.factory,
        "cbs": [cb for cb in step.cbs if cb[0] is not None],
        "staging": step.staging or [],
        "buffers": step.own,
    }


def _flat(returned: Any) -> Iterator[Any]:
    if isinstance(returned, (list, tuple)):
        for one in returned:
            yield from _flat(one)
    else:
        yield returned


def _message(error: Exception) -> tuple[str, str]:
    """The library's sentence, and its check with the source file."""
    text = str(error)
    found = re.search(r"TT_(?:FATAL|THROW) @ (\S+?): (.*?)\ninfo:\n(.*?)(?:\nbacktrace|\Z)", text, re.DOTALL)
    if found is None:
        return text.strip(), ""
    source = found[1].split("tt-metal/")[-1].split("/project/")[-1]
    return found[3].strip(), f"{source}: {found[2]}"


def main(cases: str, results: str) -> int:
    asking = Asking(runtime.select())
    with Path(results).open("w") as file:
        for case in json.loads(Path(cases).read_text()):
            file.write(json.dumps(asking.answer(case)) + "\n")
            file.flush()  # a case that takes the process with it leaves the answers before it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
