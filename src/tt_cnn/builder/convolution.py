"""What layers of convolutions and transposed convolutions share: weights prepared once, and channel slicing."""

from __future__ import annotations

from dataclasses import replace
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


class ConvolutionLayer(Layer):
    """`weight` and `bias` are the configuration's until the first call; from then on TT-NN's prepared ones."""

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
        self.weight = configuration.weight
        self.bias = configuration.bias
        self.weight_slices: list[Any] = []
        """One weight for each slice of the channels; empty without channel slicing."""
        if channel_slices(configuration.slice_strategy) > 1:
            self._prepare_for_slices()

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        place = self.place_of_input(x)
        if place is None:
            return self._run_on(x)
        moved = self._moved(x, place)
        output = self._run_on(moved)
        if moved is not x:
            free(moved)
        return output

    def _run_on(self, x: Any) -> Any:
        if self.weight_slices:
            return self._sum_over_slices(x)
        if self.strategy is None:
            self._tune(x)
        output, (self.weight, self.bias) = self.convolve(x, self.configuration.in_channels, self.weight, self.bias)
        return output

    def place_of_input(self, x: Any) -> Any:
        """The memory that this input is moved to first; None where it stays."""
        return self.configuration.input_memory_config

    def _moved(self, x: Any, place: Any) -> Any:
        """An input in L1 is given back at once where the configuration says so; the copy always is."""
        if not ttnn.is_tensor_storage_on_device(x):
            return ttnn.to_device(x, self.device, memory_config=place)
        in_l1 = x.memory_config().buffer_type == ttnn.BufferType.L1
        return Flow(x, self.configuration.deallocate_activation and in_l1).moved(place).value

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

    def _prepare_for_slices(self) -> None:
        """Only the sum of the slices is the layer's value: the activation and the layout come after it."""
        whole = to_one_torch(self.weight)
        parts = whole.chunk(channel_slices(self.configuration.slice_strategy), dim=self.input_channels_axis)
        self.weight_slices = [
            ttnn.from_torch(part.contiguous(), dtype=self.weight.dtype, mesh_mapper=replicated(self.device))
            for part in parts
        ]
        self.conv2d_config.activation = None
        self.conv2d_config.output_layout = ttnn.TILE_LAYOUT

    def _sum_over_slices(self, x: Any) -> Any:
        config = self.configuration
        on_device = ttnn.is_tensor_storage_on_device(x)
        source = x if on_device else ttnn.to_device(x, self.device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        count = len(self.weight_slices)
        total = None
        for i, part in enumerate(slices_of_channels(source, config.in_channels, count)):
            output, (self.weight_slices[i], _) = self.convolve(
                part, config.in_channels // count, self.weight_slices[i], None
            )
            output = ttnn.move(output)  # away from the holes that the convolution left in L1
            if total is None:
                total = to_dram(output)
                continue
            last = i == count - 1 and self.bias is None
            total = self._added(total, output, last)
            free(output)
        if not on_device or (config.deallocate_activation and x.memory_config().buffer_type == ttnn.BufferType.L1):
            free(source)
        if self.bias is not None:
            self.bias = self._bias_on_device()
            total = self._added(total, self.bias, last=True)
        return total if config.output_layout == ttnn.TILE_LAYOUT else self._untiled(total)

    def _added(self, total: Any, term: Any, last: bool) -> Any:
        """total + term in place of total, through the activation when it is complete."""
        activations = [self.configuration.activation] if last and self.configuration.activation is not None else []
        return ttnn.add(total, term, output_tensor=total, activations=activations)

    def _bias_on_device(self) -> Any:
        """The bias as an element-wise sum needs it; made once."""
        dtype = self.configuration.output_dtype
        bias = self.bias
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
