# SPDX-License-Identifier: Apache-2.0
"""What layers of convolutions and transposed convolutions share: weights prepared once, and channel slicing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import free, slices_of_channels, to_dram
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.lowering import to_compute_config, to_conv2d_config, to_slice_config
from tt_cnn.builder.sharding import AutoTunedStrategyConfiguration, ShardedStrategyConfiguration
from tt_cnn.builder.slicing import channel_slices
from tt_cnn.builder.weights import replicated, to_one_torch

MOST_FORMS = 4
"""Forms of the input that weights are kept for. A layer that is called in more of them prepares again."""

Form = tuple[Any, ...]
"""What of an input TT-NN prepares weights for: its memory, layout, dtype and padded channels."""


def form_of(x: Any) -> Form:
    memory = x.memory_config() if ttnn.is_tensor_storage_on_device(x) else None
    return memory, x.layout, x.dtype, x.padded_shape[-1]


@dataclass
class Weights:
    """As they are taken for one form of the input: the configuration's at first, then TT-NN's prepared ones."""

    form: Form | None
    weight: Any
    bias: Any
    slices: list[Any]
    """One weight for each slice of the channels; empty without channel slicing."""


class ConvolutionLayer(Layer):
    """`weight` and `bias` are the configuration's until the first call; from then on TT-NN's prepared ones.

    TT-NN prepares them for the shards and the padded channels of an input, and takes what is prepared as it is: with
    weights for another input it computes wrong values. So the layer keeps them by the form of its input.
    """

    configuration: ConvolutionConfiguration
    takes_host_tensors = True
    operation: ClassVar[str]
    """TT-NN's name of the op."""
    input_channels_axis: ClassVar[int]
    """Where the weight has the input's channels."""

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        tuned = isinstance(configuration.sharding_strategy, AutoTunedStrategyConfiguration)
        self.strategy: ShardedStrategyConfiguration | None = None if tuned else configuration.sharding_strategy
        """In use; None until the first input is there to tune it for."""
        self.conv2d_config = to_conv2d_config(configuration)
        self.compute_config = to_compute_config(configuration, self.device)
        self.slice_config = to_slice_config(configuration.slice_strategy)
        if channel_slices(configuration.slice_strategy) > 1:  # the activation and the layout come after their sum
            self.conv2d_config.activation = None
            self.conv2d_config.output_layout = ttnn.TILE_LAYOUT
        self._given = Weights(None, configuration.weight, configuration.bias, self._cut(configuration.weight))
        self._latest = self._given
        self._kept: tuple[Weights, ...] = ()
        """Prepared, those first that were prepared last."""
        self._seen: tuple[Any, Weights] = (None, self._given)
        """The specification of the last input on the device, and what was prepared for it."""

    @property
    def weight(self) -> Any:
        """As prepared last."""
        return self._latest.weight

    @property
    def bias(self) -> Any:
        return self._latest.bias

    @property
    def weight_slices(self) -> list[Any]:
        return self._latest.slices

    def run(self, x: Any) -> Any:
        seen, weights = self._seen
        spec = getattr(x, "spec", None)
        if spec is not None and spec is seen and ttnn.is_tensor_storage_on_device(x):  # nothing has to be compared
            return self._run(x, weights)
        form = form_of(x)
        known = self._prepared_for(form)
        if known is not None:
            self._seen = (spec if form[0] is not None else None), known
            return self._run(x, known)
        with self._preparing:  # others that come meanwhile wait, and use what is prepared here
            known = self._prepared_for(form)
            weights = known or replace(self._given, form=form, slices=list(self._given.slices))
            output = self._run(x, weights)
            if known is None:
                self._latest, self._kept = weights, (weights, *self._kept[: MOST_FORMS - 1])
            return output

    def _prepared_for(self, form: Form) -> Weights | None:
        return next((weights for weights in self._kept if weights.form == form), None)

    def _run(self, x: Any, weights: Weights) -> Any:
        place = self.place_of_input(x)
        if place is None:
            return self._run_on(x, weights)
        moved = self._moved(x, place)
        output = self._run_on(moved, weights)
        if moved is not x:
            free(moved)
        return output

    def _run_on(self, x: Any, weights: Weights) -> Any:
        if weights.slices:
            return self._sum_over_slices(x, weights)
        if self.strategy is None:
            self._tune(x)
        output, prepared = self.convolve(x, self.configuration.in_channels, weights.weight, weights.bias)
        weights.weight, weights.bias = prepared
        return output

    def place_of_input(self, x: Any) -> Any:
        """The memory that this input is moved to first; None where it stays."""
        return self.configuration.input_memory_config

    def _moved(self, x: Any, place: Any) -> Any:
        """An input in L1 is given back at once where the configuration says so; the copy always is."""
        if not ttnn.is_tensor_storage_on_device(x):
            return ttnn.to_device(x, self.device, memory_config=place)
        in_l1 = x.memory_config().buffer_type == ttnn.BufferType.L1
        return Flow(x, self.configuration.deallocate_activation and in_l1).move_to(place).value

    def _tune(self, x: Any) -> None:
        """The fastest strategy for this input, from now on."""
        from tt_cnn.builder.tuning import tuned_strategy  # it loads the virtual card

        self.strategy = tuned_strategy(self.configuration, self.operation, self.device, x)
        self.conv2d_config = to_conv2d_config(replace(self.configuration, sharding_strategy=self.strategy))

    def keywords(self) -> dict[str, Any]:
        """Those of the op that the configuration decides, but for the compute and slice configurations."""
        config = self.configuration
        names = ("in_channels", "out_channels", "batch_size", "input_height", "input_width")
        window = ("kernel_size", "stride", "padding", "dilation", "groups")
        placed = {} if config.output_memory_config is None else {"memory_config": config.output_memory_config}
        return {
            "device": self.device,
            **{name: getattr(config, name) for name in (*names, *window)},
            "dtype": config.output_dtype,
            "conv_config": self.conv2d_config,
            **placed,
        }

    def convolve(self, x: Any, in_channels: int, weight: Any, bias: Any) -> Any:
        """The op: its output, and the weight and bias as the device holds them."""
        raise NotImplementedError

    def _cut(self, weight: Any) -> list[Any]:
        """A weight on the host for each slice of the channels; none without channel slicing."""
        count = channel_slices(self.configuration.slice_strategy)
        if count == 1:
            return []
        mapper = replicated(self.device)
        parts = to_one_torch(weight).chunk(count, dim=self.input_channels_axis)
        return [ttnn.from_torch(part.contiguous(), dtype=weight.dtype, mesh_mapper=mapper) for part in parts]

    def _sum_over_slices(self, x: Any, weights: Weights) -> Any:
        config = self.configuration
        on_device = ttnn.is_tensor_storage_on_device(x)
        source = x if on_device else ttnn.to_device(x, self.device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        count = len(weights.slices)
        total = None
        for i, part in enumerate(slices_of_channels(source, config.in_channels, count)):
            output, (weights.slices[i], _) = self.convolve(part, config.in_channels // count, weights.slices[i], None)
            output = ttnn.move(output)  # away from the holes that the convolution left in L1
            if total is None:
                total = to_dram(output)
                continue
            last = i == count - 1 and weights.bias is None
            total = self._added(total, output, last)
            free(output)
        if not on_device or (config.deallocate_activation and x.memory_config().buffer_type == ttnn.BufferType.L1):
            free(source)
        if weights.bias is not None:
            weights.bias = self._bias_on_device(weights.bias)
            total = self._added(total, weights.bias, last=True)
        return total if config.output_layout == ttnn.TILE_LAYOUT else self._untiled(total)

    def _added(self, total: Any, term: Any, last: bool) -> Any:
        """total + term in place of total, through the activation when it is complete."""
        activation = self.configuration.used_activation
        activations = [activation] if last and activation is not None else []
        return ttnn.add(total, term, output_tensor=total, activations=activations)

    def _bias_on_device(self, bias: Any) -> Any:
        """The bias as an element-wise sum needs it; made once."""
        dtype = self.configuration.output_dtype
        if not ttnn.is_tensor_storage_on_device(bias):
            bias = ttnn.to_device(bias, self.device)
        if bias.layout != ttnn.TILE_LAYOUT or bias.dtype != dtype:
            bias = ttnn.to_layout(bias, ttnn.TILE_LAYOUT, dtype=dtype)
        return bias

    @staticmethod
    def _untiled(total: Any) -> Any:
        rows = ttnn.to_layout(total, ttnn.ROW_MAJOR_LAYOUT)
        free(total)
        return rows
