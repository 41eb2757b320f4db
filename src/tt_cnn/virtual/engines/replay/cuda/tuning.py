# SPDX-License-Identifier: Apache-2.0
"""How each convolution runs quickest on this GPU: all ways are compiled side by side, measured, and remembered."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton

from tt_cnn import cache_folder
from tt_cnn.virtual.engines.replay.cuda import triton_kernels as kernels
from tt_cnn.virtual.engines.replay.cuda.compilation import compile_all, kind_of
from tt_cnn.virtual.engines.replay.cuda.convolution_arguments import (
    MULTIPLE,
    ConvolutionArguments,
    Tiles,
    Workspace,
    columns_of,
    convolution_arguments,
    grid_of,
)
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import Convolution
from tt_cnn.virtual.engines.replay.cuda.launch import after_torch, convolution
from tt_cnn.virtual.engines.replay.cuda.recording import recorded
from tt_cnn.virtual.engines.replay.cuda.tunings import Way, read_ways, shipped, written_ways

log = logging.getLogger("tt_cnn.virtual")

LAUNCHES, REPLAYS = 10, 3
COLD_WEIGHTS = 1 << 20
"""Bytes from which weights are taken from different places at each launch, as they will not be in the cache."""
LARGE = (
    (128, 128, 64, 8, 3), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (128, 32, 64, 4, 4),
    (64, 32, 64, 4, 4), (128, 256, 64, 8, 3), (256, 64, 64, 8, 3),
)  # fmt: skip
SMALL = (
    (64, 32, 64, 4, 4), (64, 32, 64, 4, 8), (64, 32, 64, 8, 4), (64, 32, 128, 4, 6), (64, 64, 64, 4, 4),
    (64, 64, 64, 4, 7), (64, 64, 64, 8, 4), (64, 64, 128, 4, 4), (64, 64, 128, 8, 4), (128, 64, 64, 4, 5),
    (128, 64, 64, 8, 4), (64, 128, 64, 4, 5), (128, 128, 64, 8, 3),
)  # fmt: skip
"""(rows, columns, depth, warps, stages) of tiles, for many pixels and for fewer. With few tiles more of what they read
must be under way, hence more stages."""
LARGE_EIGHT = (
    (128, 128, 128, 8, 3), (64, 128, 128, 4, 3), (128, 64, 128, 4, 3), (128, 64, 64, 4, 4), (64, 64, 128, 4, 3),
    (128, 32, 128, 4, 3), (128, 256, 128, 8, 3), (256, 64, 128, 8, 3),
)  # fmt: skip
SMALL_EIGHT = (
    (64, 32, 128, 4, 4), (64, 32, 128, 8, 4), (64, 32, 64, 4, 8), (64, 64, 128, 4, 4), (64, 64, 128, 8, 3),
    (64, 64, 64, 4, 7), (64, 128, 128, 4, 4), (128, 64, 128, 8, 4), (128, 128, 128, 8, 3),
)  # fmt: skip
"""For products in 8 bits: twice as deep, which is as many bytes."""
FLAT = ((16, 32, 128, 4, 4), (16, 64, 128, 4, 4), (16, 32, 64, 4, 8), (16, 64, 64, 4, 8))
"""For results of 32 pixels or fewer."""
MANY_PIXELS = 8192


def ways(step: Convolution, in_place: bool) -> list[Way]:
    """What is worth measuring. Torch has no convolutions in 8 bits."""
    if step.tail is not None or step.in_eight_bits:
        return [("triton", tiles) for tiles in _tilings(step)]
    found: list[Way] = [("torch", None)]
    if step.activation[0] == "Relu" and not in_place and _cudnn_fuses(step):
        found.append(("cudnn", None))
    if step.groups > 1:
        return found
    return found + [("triton", tiles) for tiles in _tilings(step)]


def _cudnn_fuses(step: Convolution) -> bool:
    padding = step.node.params[1]
    plain = not step.transposed and padding[:2] == padding[2:] and step.y.dtype == step.dtype == step.x.dtype
    adds = step.fused.other is None or step.fused.other_first
    return plain and adds and step.eight is None and step.x.is_contiguous(memory_format=torch.channels_last)


def _tilings(step: Convolution) -> list[Tiles]:
    processors = torch.cuda.get_device_properties(step.y.device).multi_processor_count
    channels, height, width = step.window
    n, _, h, w = step.node.source.shape if step.transposed else step.node.shape
    pixels, places, scattered = n * h * w, height * width, channels % MULTIPLE != 0
    found: dict[Tiles, None] = {}
    for neighbours in _neighbours(step, width, w, pixels):
        columns = columns_of(step, neighbours)
        widest = max(32, 1 << (columns - 1).bit_length())
        for rows, across, depth, warps, stages in _tables(step, pixels):
            if across > widest or (rows > 64 and pixels <= 64) or (max(rows, across) > 128 and pixels < 16384):
                continue
            if (step.tail is not None or neighbours > 1) and across != widest:
                continue
            if scattered:
                depths = {32, min(64, 32 * -(-channels * places // 32))}
            else:
                depths = {max(d for d in (16, 32, 64, 128) if d <= depth and channels % d == 0)}
            for deep in depths:
                whole = Tiles(rows, across, deep, 1, warps, stages, neighbours)
                programs, rounds = grid_of(step, whole)[0], channels * places // deep
                found[whole] = None
                if _joins(step, channels, width + neighbours - 1, depth):
                    found[replace(whole, depth=depth, joined=True)] = None
                if not scattered and step.tail is None and neighbours == 1:
                    for target in (processors, 2 * processors):
                        found[replace(whole, split=max(1, min(round(target / programs), rounds // 3, 16)))] = None
    return list(found)


def _tables(step: Convolution, pixels: int) -> Sequence[tuple[int, int, int, int, int]]:
    if pixels <= 32:
        return FLAT
    small, large = (SMALL_EIGHT, LARGE_EIGHT) if step.in_eight_bits else (SMALL, LARGE)
    return small if pixels < MANY_PIXELS else large


def _joins(step: Convolution, channels: int, width: int, depth: int) -> bool:
    """Whether rows of the window are whole blocks of several pixels."""
    close = step.x.stride(3) == channels and step.x.stride(1) == 1 and step.node.params[2] == (1, 1)
    plain = step.in_eight_bits and not step.transposed
    return plain and close and width > 1 and channels < depth and width * channels % depth == 0


def _neighbours(step: Convolution, width: int, w: int, pixels: int) -> list[int]:
    """How many pixels of a row are worth computing at once: with few channels reading takes longest."""
    stride, _, dilation, _ = step.node.params
    if step.transposed or width == 1 or pixels < MANY_PIXELS or (stride, dilation) != ((1, 1), (1, 1)):
        return [1]
    channels = step.node.shape[1]
    return [1, *(k for k in (2, 4) if w % k == 0 and channels in (16, 32, 64) and k * channels <= 128)]


def signature(step: Convolution, in_place: bool) -> str:
    """Steps with the same one run quickest the same way."""
    node = step.node
    x, other = step.x, step.fused.other
    added = 0 if other is None else 1 + step.fused.other_first
    parts = (
        node.kind, node.source.shape, node.shape, tuple(step.weight.shape), node.params, step.activation[0], added,
        x.stride(), x.dtype.itemsize, step.y.stride(), step.y.dtype.itemsize, in_place, step.columns,
        step.tail_activation[0] if step.tail else None, None if step.eight is None else step.eight.stride(),
    )  # fmt: skip
    return repr(parts)


class Tuner:
    def __init__(self, workspace: Workspace, cache: Path) -> None:
        self.workspace = workspace
        device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}"
        self.file = cache / f"cuda_convolutions-{hashlib.sha256(device.encode()).hexdigest()[:16]}.json"
        self._own = shipped(torch.cuda.get_device_name(), triton.__version__)
        self._own |= read_ways(cache_folder.read_json(self.file))
        self._matrices: dict[tuple[int, int], torch.Tensor] = {}

    def known(self, key: str) -> Way:
        """The quickest way, once it has been measured."""
        return self._own[key][0]

    def seconds(self, key: str) -> float:
        """Of the quickest way."""
        return self._own[key][1] * 1e-6

    def tune(self, steps: Sequence[tuple[str, Convolution, bool]], launcher: Callable[..., Callable[[], Any]]) -> None:
        """Measure what is not known yet, or known by a way that there is not."""
        new: dict[str, tuple[Convolution, bool]] = {}
        choices: dict[str, list[Way]] = {}
        for key, step, in_place in steps:
            if key not in choices and (key not in self._own or self.known(key) not in ways(step, in_place)):
                new[key], choices[key] = (step, in_place), ways(step, in_place)
        if not new:
            return
        wanted = [(new[key][0], way[1]) for key, found in choices.items() for way in found if way[1] is not None]
        self.compile(wanted, pdl=False)
        for key, found in choices.items():
            step = new[key][0]
            times = {way: self._seconds(step, way, launcher) for way in found}
            best = min(times, key=times.__getitem__)
            self._own[key] = best, times[best] * 1e6
            log.info("%s: %s, %.1f us", key, best, times[best] * 1e6)
        self._save(new)

    def _save(self, keys: Iterable[str]) -> None:
        cache_folder.update_json(self.file, written_ways({key: self._own[key] for key in keys}))

    def compile(self, wanted: Sequence[tuple[Convolution, Tiles]], pdl: bool) -> None:
        compile_all(self.jobs(wanted, pdl))

    def jobs(self, wanted: Sequence[tuple[Convolution, Tiles]], pdl: bool) -> dict[Hashable, Callable[[], Any]]:
        """What compiles the kernels of convolutions, each once."""
        found: dict[Hashable, Callable[[], Any]] = {}
        for step, tiles in wanted:
            given = convolution_arguments(step, self.matrix(step, tiles.neighbours), tiles, self.workspace, pdl)
            kinds = [kind_of(one) for name, one in given.arguments.items() if name not in kernels.UNSPECIALIZED]
            found.setdefault((given.compiled_for, *kinds), _warming(given))
        return found

    def matrix(self, step: Convolution, neighbours: int) -> torch.Tensor:
        key = id(step), neighbours
        if key not in self._matrices:
            self._matrices[key] = step.matrix(neighbours)
        return self._matrices[key]

    def _seconds(self, step: Convolution, way: Way, launcher: Callable[..., Callable[[], Any]]) -> float:
        """A launch among many in a CUDA graph; infinity where it cannot be launched."""
        try:
            if way[1] is not None:
                matrix = self.matrix(step, way[1].neighbours)
                copies = LAUNCHES if matrix.nbytes >= COLD_WEIGHTS else 1
                places = [matrix, *(matrix.clone() for _ in range(copies - 1))]
                launches = [convolution(step, one, way[1], self.workspace, False) for one in places]
            else:
                launches = [launcher(step, way[0])]
            launches[0]()
            graph = recorded(lambda: [launches[i % len(launches)]() for i in range(LAUNCHES)])
            return min(replayed(graph) for _ in range(REPLAYS)) / LAUNCHES
        except (RuntimeError, triton.TritonError) as error:
            log.info("%s with %s does not run: %s", signature(step, False), way, str(error)[:200])
            return float("inf")


def _warming(found: ConvolutionArguments) -> Callable[[], Any]:
    return lambda: kernels.convolution.warmup(grid=(1,), **found.arguments, **found.settings)


def replayed(graph: torch.cuda.CUDAGraph) -> float:
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    graph.replay()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1e3


def library(step: Convolution, name: str, keep: Callable[[Any, torch.Tensor], None], pdl: bool) -> Callable[[], Any]:
    """A convolution of torch's."""
    if name == "torch":

        def alone() -> None:
            with torch.backends.cudnn.flags(enabled=True, benchmark=True):
                after_torch(step, pdl)

        return alone
    stride, padding, dilation, groups = step.node.params
    rest = (step.bias_of_16_bits, stride, padding[:2], dilation, groups)

    def fused() -> None:
        other = step.other
        if other is None:
            value = torch.cudnn_convolution_relu(step.x, step.weight, *rest)
        else:
            value = torch.cudnn_convolution_add_relu(step.x, step.weight, other, 1.0, *rest)
        if (value.stride(), value.dtype) == (step.y.stride(), step.y.dtype):
            keep(step.fused.result, value)
        else:
            step.y.copy_(value)

    return fused
