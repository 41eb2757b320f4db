# SPDX-License-Identifier: Apache-2.0
"""Making a model fit: for each call that the card refuses, room is made by the remedy that costs least.

All is planned and nothing computed. Every change is kept with the refusal that it answers, so that the user sees all
misfits of the model at once, with what was done about each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tt_cnn import ttnn
from tt_cnn.bringup.lowering.program import Program, Statement, Value
from tt_cnn.builder.concat_configuration import ConcatConfiguration
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.builder.sharding import (
    AutoShardedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.builder.slicing import (
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    SliceStrategyConfiguration,
    WidthSliceStrategyConfiguration,
)
from tt_cnn.optimizer.prediction import Prediction, Predictor, Refusal
from tt_cnn.optimizer.repair import FOR_ROOM

DRAM = ttnn.DRAM_MEMORY_CONFIG
MOST_TRIES = 400


@dataclass(frozen=True)
class Misfit:
    """A refusal, and what was done about it."""

    layer: str
    reason: str
    changes: Mapping[str, LayerSettings]


@dataclass(frozen=True)
class Fitted:
    assignment: Assignment
    prediction: Prediction | Refusal
    misfits: tuple[Misfit, ...]


def fit_fastest(predictor: Predictor, program: Program, start: Assignment) -> Fitted:
    """The fastest of several beginnings, which differ in what all convolutions have, and then all linear layers."""
    starts = [start.with_all(changes) for changes in _beginnings(predictor.configurations)]
    fitted = {each: fit(predictor, program, each) for each in starts}
    fastest = min(fitted, key=lambda each: _time(fitted[each]))
    linear = _layers_of(predictor, LinearConfiguration)
    if not linear:
        return fitted[fastest]
    columns, rows = predictor.card.grid
    on_all_cores = {"core_grid": ttnn.CoreGrid(x=columns, y=rows), "memory_config": ttnn.L1_MEMORY_CONFIG}
    other = fit(predictor, program, fastest.with_all(dict.fromkeys(linear, on_all_cores)))
    return min(fitted[fastest], other, key=_time)


def _layers_of(predictor: Predictor, kind: type[Configuration]) -> list[str]:
    return [name for name, configuration in predictor.configurations.items() if isinstance(configuration, kind)]


_WHOLE: LayerSettings = {"slice_strategy": L1FullSliceStrategyConfiguration()}
"""From DRAM a convolution runs in slices and leaves its output in DRAM, and so does all that follows, unless a
setting takes its whole input into L1."""
_AHEAD: LayerSettings = {**_WHOLE, "enable_act_double_buffer": True, "reallocate_halo_output": False}
_PIXELS_TO_CHANNELS = 8
"""From how many pixels for each channel on a convolution is begun with height shards; with fewer with block shards."""


def _beginnings(configurations: Mapping[str, Configuration]) -> Iterator[dict[str, LayerSettings]]:
    """TT-NN's choice, with slices where inputs lie in DRAM; whole inputs in L1; blocks read ahead; and shards that suit
    the images' sizes, made by every convolution or only where their kind changes."""
    convolutions = {name: each for name, each in configurations.items() if isinstance(each, ConvolutionConfiguration)}
    yield {}
    if not convolutions:
        return
    yield dict.fromkeys(convolutions, _WHOLE)
    yield dict.fromkeys(convolutions, _AHEAD)
    every = HeightShardedStrategyConfiguration(reshard_if_not_optimal=True)
    yield {name: {**_AHEAD, "sharding_strategy": every} for name in convolutions}
    resharded = {name: _kind_for(each)(reshard_if_not_optimal=True) for name, each in convolutions.items()}
    for settings in (_WHOLE, _AHEAD):
        yield {name: {**settings, "sharding_strategy": strategy} for name, strategy in resharded.items()}
    changing: dict[str, LayerSettings] = {}
    before = None
    for name, each in convolutions.items():
        kind = _kind_for(each)
        deals = kind is not before or set(each.stride) != {1}
        changing[name] = {**_AHEAD, "sharding_strategy": kind(reshard_if_not_optimal=deals)}
        before = kind
    yield changing


def _kind_for(convolution: ConvolutionConfiguration) -> Any:
    height, width = convolution.output_size
    many = convolution.batch_size * height * width >= _PIXELS_TO_CHANNELS * convolution.out_channels
    return HeightShardedStrategyConfiguration if many else BlockShardedStrategyConfiguration


def _time(fitted: Fitted) -> float:
    return float("inf") if isinstance(fitted.prediction, Refusal) else fitted.prediction.device_ns


def fit(predictor: Predictor, program: Program, start: Assignment | None = None) -> Fitted:
    """Settings that the card takes, found refusal by refusal."""
    assignment = start or Assignment()
    misfits: list[Misfit] = []
    remedies: dict[str, Iterator[dict[str, LayerSettings]]] = {}
    lives = _Lives(program)
    prediction = predictor.predict(assignment)
    for _ in range(MOST_TRIES):
        if not isinstance(prediction, Refusal) or prediction.layer not in predictor.configurations:
            break
        layer = prediction.layer
        if layer not in remedies:
            remedies[layer] = _remedies(layer, prediction.reason, predictor.configurations, lives)
        changes = next(remedies[layer], None)
        if changes is None:
            break
        if not _new(changes, assignment, predictor.configurations):
            continue
        tried = assignment.with_all(changes)
        found = predictor.predict(tried)
        if isinstance(found, Refusal) and found.layer == layer and _alone(changes):
            continue  # did not help by itself: the next remedy is tried in its place
        misfits.append(Misfit(layer, prediction.reason, changes))
        assignment, prediction = tried, found
    fitted = Fitted(assignment, prediction, tuple(misfits))
    return _relaxed(predictor, fitted, start or Assignment())


def _relaxed(predictor: Predictor, fitted: Fitted, start: Assignment) -> Fitted:
    """Without the changes that later ones have made needless: what is as it was at the start, and is faster so."""
    if isinstance(fitted.prediction, Refusal):
        return fitted
    kept = list(fitted.misfits)
    for misfit in fitted.misfits:
        fewer = [each for each in kept if each is not misfit]
        tried = start
        for each in fewer:
            tried = tried.with_all(each.changes)
        found = predictor.predict(tried)
        if not isinstance(found, Refusal) and found.device_ns <= fitted.prediction.device_ns:
            kept, fitted = fewer, Fitted(tried, found, tuple(fewer))
    return fitted


def _alone(changes: Mapping[str, LayerSettings]) -> bool:
    """Changes of how the layer runs replace each other; memory that is freed stays free."""
    return all(not {"sharding_strategy", "reallocate_halo_output"}.isdisjoint(own) for own in changes.values())


class _Lives:
    """When tensors are alive, by the layers that make and read them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.place = {statement.layer.name: index for index, statement in enumerate(program.statements)}
        self.maker: dict[Value, Statement] = {}
        for statement in program.statements:
            for value in statement.outputs:
                self.maker[value.owner] = statement
        self.last = program.uses()

    def knows(self, layer: str) -> str:
        """The layer of the program: the layer itself, or the one that it is a part of; empty where there is none."""
        while layer and layer not in self.place:
            layer = layer.rpartition(".")[0]
        return layer

    def inputs(self, layer: str) -> list[str]:
        """The layers that made what the layer reads."""
        statement = self.program.statements[self.place[layer]]
        found = [self.maker.get(value.owner) for value in statement.inputs]
        return [each.layer.name for each in found if each is not None]

    def waiting(self, layer: str) -> list[str]:
        """The layers whose outputs lie in memory while this one runs, and that it does not read; longest first."""
        here = self.place[layer]
        own = set(self.inputs(layer))
        found = []
        for value, statement in self.maker.items():
            made = self.place[statement.layer.name]
            until = self.last.get(value, made)
            if made < here < until and statement.layer.name not in own:
                found.append((until - made, statement.layer.name))
        return [name for _, name in sorted(found, reverse=True)]


def _remedies(
    layer: str, reason: str, configurations: Mapping[str, Configuration], lives: _Lives
) -> Iterator[dict[str, LayerSettings]]:
    """What makes room for a layer, or lets it run otherwise; the cheap ones first."""
    configuration = configurations[layer]
    if "L1_SMALL" in reason:
        yield from _tables_out(layer, configuration)
    if not any(words in reason for words in FOR_ROOM):  # room is no remedy
        yield from _sharded_otherwise(layer, configuration)
        yield from _from_dram(layer, configuration)
        return
    yield from _less_ahead(layer, configuration)
    known = lives.knows(layer)
    for waiting in lives.waiting(known) if known else ():
        yield from _out(waiting, configurations)
    yield from _sharded_otherwise(layer, configuration)
    if isinstance(configuration, ConvolutionConfiguration):
        if configuration.output_dtype != ttnn.bfloat8_b:
            half = {"output_dtype": ttnn.bfloat8_b}
            yield {layer: half}
            yield from _sharded_otherwise(layer, configuration, half)
        # partial sums of half the size: those of 1x1 take the most room
        yield from _sharded_otherwise(layer, configuration, {"fp32_dest_acc_en": False})
    inputs = lives.inputs(known) if known else []
    yield from _halved(layer, inputs, configurations)
    for before in inputs:
        yield from _out(before, configurations)
    yield from _out(layer, configurations)
    if isinstance(configuration, ConvolutionConfiguration):
        yield {layer: {"enable_weights_double_buffer": False, "output_dtype": ttnn.bfloat8_b}}
        yield {layer: {"weights_dtype": ttnn.bfloat8_b}}
    yield from _from_dram(layer, configuration)
    yield from _tables_out(layer, configuration)


def _less_ahead(layer: str, configuration: Configuration) -> Iterator[dict[str, LayerSettings]]:
    """Holes in L1 closed before the convolution, and its input read block by block as it is needed."""
    if isinstance(configuration, ConvolutionConfiguration):
        yield {layer: {"reallocate_halo_output": True}}
        yield {layer: {"reallocate_halo_output": True, "enable_act_double_buffer": False}}


def _tables_out(layer: str, configuration: Configuration) -> Iterator[dict[str, LayerSettings]]:
    for name in ("config_tensors_in_dram", "config_tensor_in_dram"):
        if _has(configuration, name):
            yield {layer: {name: True}}


def _sharded_otherwise(
    layer: str, configuration: Configuration, besides: LayerSettings | None = None
) -> Iterator[dict[str, LayerSettings]]:
    """Smaller blocks and other shards, each by itself."""
    if isinstance(configuration, ConvolutionConfiguration):
        for strategy in _strategies(configuration):
            yield {layer: {"sharding_strategy": strategy, **(besides or {})}}


def _from_dram(layer: str, configuration: Configuration) -> Iterator[dict[str, LayerSettings]]:
    """A convolution's input in DRAM: from there it runs in slices, however large it is.

    In few slices of block shards where channels are many: TT-NN would take width shards, in which every core works
    through all pixels.
    """
    if isinstance(configuration, ConvolutionConfiguration) and configuration.input_memory_config is None:
        if _kind_for(configuration) is BlockShardedStrategyConfiguration:
            blocks = BlockShardedStrategyConfiguration(reshard_if_not_optimal=True)
            for cut in _few_slices(configuration):
                yield {layer: {"sharding_strategy": blocks, "slice_strategy": cut, "input_memory_config": DRAM}}
        sliced = {"sharding_strategy": AutoShardedStrategyConfiguration(), "slice_strategy": None}
        yield {layer: {**sliced, "input_memory_config": DRAM}}


def _few_slices(configuration: ConvolutionConfiguration) -> Iterator[SliceStrategyConfiguration]:
    """Along the longer side first: the less of a slice lies at its edges."""
    height, width = configuration.output_size
    kinds = (WidthSliceStrategyConfiguration, HeightSliceStrategyConfiguration)
    for count in (2, 4):
        yield from (kind(count) for kind in (kinds if width >= height else kinds[::-1]) if count <= min(height, width))


_BLOCKS = (0, 512, 256, 128, 64, 32)
"""Rows of an activation block; 0 leaves the choice to TT-NN."""


def _strategies(configuration: ConvolutionConfiguration) -> Iterator[Any]:
    small = configuration.batch_size * configuration.output_size[0] * configuration.output_size[1]
    for kind in (HeightShardedStrategyConfiguration, BlockShardedStrategyConfiguration):
        for block in _BLOCKS:
            if block < small:
                yield kind(reshard_if_not_optimal=True, act_block_h_override=block)
    yield WidthShardedStrategyConfiguration(reshard_if_not_optimal=True)


def _halved(
    layer: str, inputs: list[str], configurations: Mapping[str, Configuration]
) -> Iterator[dict[str, LayerSettings]]:
    """What the layer reads, and what it joins, in half the bytes."""
    own: dict[str, LayerSettings] = {}
    if isinstance(configurations[layer], ConcatConfiguration):
        own = {layer: {"output_dtype": ttnn.bfloat8_b, "output_layout": ttnn.TILE_LAYOUT}}
        yield own
    read: dict[str, LayerSettings] = {
        name: {"output_dtype": ttnn.bfloat8_b}
        for name in inputs
        if isinstance(configurations.get(name), ConvolutionConfiguration)
    }
    if read:
        yield {**read, **own}


def _out(layer: str, configurations: Mapping[str, Configuration]) -> Iterator[dict[str, LayerSettings]]:
    """The layer's output in DRAM."""
    configuration = configurations.get(layer)
    if configuration is None:
        return
    if isinstance(configuration, ConvolutionConfiguration):
        yield {layer: {"output_memory_config": DRAM}}
    elif _has(configuration, "place"):
        yield {layer: {"place": "dram"}}
    elif _has(configuration, "memory_config"):
        changes: dict[str, Any] = {"memory_config": DRAM}
        if _has(configuration, "in_place"):
            changes["in_place"] = False
        yield {layer: changes}


def _has(configuration: Configuration, name: str) -> bool:
    return any(each.name == name for each in fields(configuration))  # type: ignore[arg-type]


def _new(
    changes: Mapping[str, LayerSettings], assignment: Assignment, configurations: Mapping[str, Configuration]
) -> bool:
    def current(name: str, field: str) -> Any:
        own = assignment.get(name, {})
        return own[field] if field in own else getattr(configurations[name], field)

    return any(current(name, key) != value for name, own in changes.items() for key, value in own.items())
