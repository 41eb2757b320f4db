# SPDX-License-Identifier: Apache-2.0
"""Runs a program eagerly and as a trace, and says where the two differ."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from tests.differential.program import Moved, Program, Running, values_of
from tests.differential.sixteen_bits import Float64, InBfloat16, InSixteenBits
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.engines.creation import ENGINES
from tt_cnn.virtual.engines.replay.cuda.guarded import GuardedReplay
from tt_cnn.virtual.engines.replay.cuda.launches import Launches
from tt_cnn.virtual.engines.replay.evaluate import walk
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.replay import OnHost, Replay
from tt_cnn.virtual.engines.streams import from_host

LOG = logging.getLogger("tt_cnn.virtual")
REPLAYS = 5
WELL_CONDITIONED = 4e-6
"""Where torch's own float32 is further from float64, relative to the largest value, a program says nothing."""
STEADY = 1e-5
"""Where the last bit of an input moves a result further than that, neither."""
STEADY_SHARE = 0.5
"""Where errors of 16 bits, drawn at random, move a result further than this part of the tolerance, neither."""
DRAWS = 4
"""So often are they drawn."""
FLOAT16 = torch.finfo(torch.float16).max
OPTIONS = {"l1_small_size": 32768, "hazards": "off"}


class Nudged(Float64):
    """The same with inputs changed by the last bit of float32, but for whole numbers, on which functions jump."""

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        value = super().upload(host)
        if not value.is_floating_point():
            return value
        signs = torch.randint(0, 2, value.shape, generator=torch.Generator().manual_seed(value.numel())) * 2 - 1
        return torch.where(value.isfinite() & (value != value.round()), value * (1 + 2.0**-24 * signs), value)


class _StepsOnCpu:
    """A host as `hosts.py` has them: the GPU's program, each of its steps run by torch."""

    def __init__(self, outputs: Sequence[Node], dtype: torch.dtype = torch.float32) -> None:
        self._program = Launches(outputs, "cpu", dtype)
        self.dtype = dtype

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for static, value in zip(self._program.inputs, inputs, strict=True):
            static.copy_(value)
        self._program.run()
        return [
            one.to(torch.float32, memory_format=torch.contiguous_format, copy=True) for one in self._program.outputs()
        ]


class _StepsReplay(GuardedReplay):
    def _graph(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor], room: float) -> Any:
        return _StepsOnCpu(nodes)


class _NarrowStepsReplay(GuardedReplay):
    def _graph(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor], room: float) -> Any:
        """In float16 where the numbers leave room, as `CudaGraph` has it."""
        largest = 0.0
        for node, value in walk(nodes, [one.float() for one in inputs]):
            if node.kind != "input" and node.value is None and value.is_floating_point() and value.numel():
                largest = max(largest, float(value.abs().nan_to_num(math.inf).max()))
        return _StepsOnCpu(nodes, torch.float16 if largest * room <= FLOAT16 else torch.bfloat16)


class Steps(Engine):
    """How replays on a GPU are put together, without a GPU: which step reads and writes which memory."""

    kind: type[GuardedReplay] = _StepsReplay

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        return from_host(host.clone(), host)

    def replay(self, commands: Sequence[Any], outputs: Sequence[Any]) -> Any:
        return self.kind(commands, outputs)

    def captured(self, replay: Any) -> Any:
        return replay.note_values


class NarrowSteps(Steps):
    """The same in the GPU's 16 bits."""

    kind = _NarrowStepsReplay


ENGINES.setdefault("float64", Float64)
ENGINES.setdefault("nudged", Nudged)
SIXTEEN_BITS = {torch.float16: "errors of float16", torch.bfloat16: "errors of bfloat16"}
ENGINES.setdefault(SIXTEEN_BITS[torch.float16], InSixteenBits)
ENGINES.setdefault(SIXTEEN_BITS[torch.bfloat16], InBfloat16)
ENGINES.setdefault("steps", Steps)
ENGINES.setdefault("narrow steps", NarrowSteps)


@dataclass(frozen=True)
class Setting:
    """A card to check, and how close its replays must be to what is right."""

    numerics: str
    engine: str
    tolerance: float | None = None
    """Of the largest |value| of an output. None: bit for bit what commands give outside of a trace."""
    card: str = "n150"
    narrow: bool = False
    """It computes in 16 bits, so that a difference says something only where those carry its results that far."""
    beside: str | None = None
    """The engine whose commands outside of a trace are right; its own unless given."""

    def __str__(self) -> str:
        return f"{self.numerics} on {self.engine}"


DEVICE = Setting("device", "kernels")
EXACT = Setting("exact", "cpu")
CUDA_EXACT = Setting("exact", "cuda", beside="cpu")
NATIVE = tuple(Setting("native", engine, 1e-4) for engine in ("kernels", "openvino", "onnxruntime"))
STEPS = Setting("native", "steps", 1e-4)
NARROW_STEPS = Setting("native", "narrow steps", 2e-2, narrow=True)
ALIKE = Setting("native", "torch")
CUDA = (Setting("device", "cuda"), Setting("native", "cuda", 2e-2, narrow=True))


class IllConditioned(Exception):
    """The last bits of float32, or of 16 bits, decide what the program gives."""


class NotTraceable(Exception):
    """The card takes the calls, but not in a trace: some write from the host, or choose a program by free memory."""


class Difference(AssertionError):
    """A replay gave something else than it must."""


Outputs = list[list[torch.Tensor]]
"""Of each replay, the results in their order."""


@contextmanager
def opened(setting: Setting) -> Iterator[Any]:
    device = ttnn.open_device(
        device_id=0, numerics=setting.numerics, engine=setting.engine, card=setting.card, **OPTIONS
    )
    level = LOG.level
    LOG.setLevel(logging.ERROR)  # an input that is allocated anew is warned of, each time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield device
    finally:
        LOG.setLevel(level)
        ttnn.close_device(device)


def eager(program: Program, device: Any) -> Outputs:
    """The results of calls one after the other, on new inputs each time."""
    running, found = _warm(program, device), []
    for i in range(REPLAYS):
        running.write(i)
        found.append(values_of(running.call()))
    return found


def _warm(program: Program, device: Any) -> Running:
    """With its programs compiled and its weights prepared, which a first call does."""
    running = Running(program, ttnn, device)
    running.write(0)
    running.call()
    running.reset()
    return running


def replayed(
    program: Program, device: Any, parts: list[Any] | None = None, formats: set[torch.dtype] | None = None
) -> Outputs:
    """The results of a trace's replays on the same inputs. `parts` is told how the last one was run, `formats` which
    numbers of 16 bits any of them had."""
    running, found = _warm(program, device), []
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    try:
        results = running.call()
    except RuntimeError as error:
        if "during trace capture" in str(error):
            raise NotTraceable(str(error)) from error
        raise
    finally:
        ttnn.end_trace_capture(device, trace, cq_id=0)
    running.traced = True
    for i in range(REPLAYS):
        try:
            running.write(i)
        except Moved as error:
            raise NotTraceable(str(error)) from error
        ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
        found.append(values_of(results))
        replay = device.traces[int(trace)].replay
        if formats is not None and isinstance(replay, Replay):
            hosts = [part.run.host for part in replay.parts if isinstance(part.run, OnHost)]
            formats.update(one for host in hosts if (one := getattr(host, "dtype", None)) in SIXTEEN_BITS)
    if parts is not None and isinstance(replay, Replay):
        parts.extend(replay.parts)
    ttnn.release_trace(device, trace)
    return found


def reference(program: Program) -> Outputs:
    """In float64, with NaN and infinity where torch's float32 has them."""
    with opened(Setting("native", "float64")) as device:
        wide = eager(program, device)
    with opened(ALIKE) as device:
        single = eager(program, device)
    with opened(Setting("native", "nudged")) as device:
        nudged = eager(program, device)
    for right, near, other in zip(_flat(wide), _flat(single), _flat(nudged), strict=True):
        if right.is_floating_point():
            _check_condition(right, near, WELL_CONDITIONED)
            _check_condition(right, other, STEADY)
        elif not torch.equal(right, other):
            raise IllConditioned("whole numbers depend on the last bit of an input")
    return wide


def _check_condition(right: torch.Tensor, near: torch.Tensor, limit: float) -> None:
    if not torch.equal(_place_of_infinities(right), _place_of_infinities(near)):
        raise IllConditioned("it has NaN and infinity in other places than float64")
    finite = right.isfinite()
    if bool(finite.any()):
        off, largest = float((right - near.double())[finite].abs().max()), float(right[finite].abs().max())
        if off > limit * largest:
            raise IllConditioned(f"it is {off / max(largest, 1e-300):.1e} from float64")


def check_16_bits(program: Program, right: Outputs, tolerance: float, formats: Iterable[torch.dtype]) -> None:
    """Raise where errors of these formats move what the program gives."""
    for engine in (SIXTEEN_BITS[one] for one in formats):
        for InSixteenBits.seed in range(DRAWS):
            with opened(Setting("native", engine)) as device:
                near = eager(program, device)
            try:
                compare(program, near, right, STEADY_SHARE * tolerance)
            except Difference as error:
                raise IllConditioned(f"with {engine}, {error}") from error


def _flat(outputs: Outputs) -> Iterator[torch.Tensor]:
    return (one for results in outputs for one in results)


def check(program: Program, setting: Setting, parts: list[Any] | None = None, right: Outputs | None = None) -> None:
    """Raise a Difference where replays are not what they must be. `right`: the reference, where it is known."""
    expected = (right or reference(program)) if setting.tolerance is not None else None
    formats: set[torch.dtype] = set()
    if setting.beside is not None:
        with opened(replace(setting, engine=setting.beside)) as device:
            expected = eager(program, device)
    with opened(setting) as device:
        if expected is None:
            expected = eager(program, device)
        found = replayed(program, device, parts, formats)
    try:
        compare(program, found, expected, setting.tolerance)
    except Difference:
        if setting.tolerance is not None and setting.narrow:
            check_16_bits(program, expected, setting.tolerance, formats)
        raise


def compare(program: Program, found: Outputs, expected: Outputs, tolerance: float | None) -> None:
    for number, (ours, right) in enumerate(zip(found, expected, strict=True)):
        for name, a, b in zip(program.results, ours, right, strict=True):
            why = different_bits(a, b) if tolerance is None else too_far(a, b, tolerance)
            if why:
                raise Difference(f"replay {number} of {REPLAYS}, result {name}: {why}")


def different_bits(found: torch.Tensor, expected: torch.Tensor) -> str:
    """How two tensors differ; empty where all bits are the same. A NaN is like any other."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype} of {tuple(found.shape)} instead of {expected.dtype} of {tuple(expected.shape)}"
    a, b = _bits(found), _bits(expected)
    wrong = a != b
    if not bool(wrong.any()):
        return ""
    at = tuple(wrong.nonzero()[0].tolist())
    return f"{int(wrong.sum())} of {wrong.numel()} differ, the first at {at}: {found[at]} instead of {expected[at]}"


def _bits(value: torch.Tensor) -> torch.Tensor:
    if not value.is_floating_point():
        return value
    return torch.where(value.isnan(), torch.full_like(value, float("nan")), value).contiguous().view(torch.int32)


def too_far(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str:
    if found.shape != expected.shape:
        return f"shape {tuple(found.shape)} instead of {tuple(expected.shape)}"
    if not expected.is_floating_point():
        return different_bits(found.to(expected.dtype), expected)
    a, b = found.double(), expected.double()
    wrong = _place_of_infinities(a) != _place_of_infinities(b)
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        return f"NaN and infinity in other places: at {at} it is {found[at]} instead of {expected[at]}"
    finite = b.isfinite()
    if not bool(finite.any()):
        return ""
    off = torch.where(finite, (a - b).abs(), torch.zeros_like(a))
    largest = float(b[finite].abs().max())
    if float(off.max()) <= tolerance * largest:
        return ""
    at = tuple((off == off.max()).nonzero()[0].tolist())
    return (
        f"off by {float(off.max()) / max(largest, 1e-300):.2e} of the largest |value| {largest:.4g}, at {at}: "
        f"{found[at]} instead of {expected[at]}"
    )


def _place_of_infinities(value: torch.Tensor) -> torch.Tensor:
    """0 for what is finite, 1 for NaN, 2 and 3 for the infinities. In 64 bits, what float32 cannot hold is infinite."""
    value = value.float()
    return value.isnan().int() + 2 * value.isposinf().int() + 3 * value.isneginf().int()


def names_of(settings: Sequence[Setting]) -> str:
    return ", ".join(map(str, settings))
