# SPDX-License-Identifier: Apache-2.0
"""What all layers share: a configuration of their kind, a device, a name, and a check of what they are given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.naming import named
from tt_cnn.builder.overrides import note_layer, overridden
from tt_cnn.builder.rules import shown

_FAILED = "_tt_cnn_layer"
"""The attribute of an error that names the layer it came from."""


@contextmanager
def telling(name: str) -> Iterator[None]:
    """Errors from inside know the innermost layer with a name that they came from."""
    try:
        yield
    except Exception as error:
        if not layer_that_failed(error):
            setattr(error, _FAILED, name)
        raise


def layer_that_failed(error: BaseException) -> str:
    """The name of the layer that an error came from; empty where it came from outside of layers."""
    return str(getattr(error, _FAILED, ""))


class Layer:
    """A callable that runs one op of TT-NN as its configuration says."""

    configuration: Any
    configured_by: ClassVar[type[Configuration]]
    takes_host_tensors: ClassVar[bool] = False

    def __init__(self, configuration: Any, device: Any, name: str = "") -> None:
        if not isinstance(configuration, self.configured_by):
            raise ValueError(
                f"configuration is {type(configuration).__name__}; it must be {self.configured_by.__name__}."
            )
        self.device = device
        self.name = name
        """As in `encoder1.conv2`: the virtual card's errors say which layer they come from, and settings that replace
        those of the configuration (`tt_cnn.builder.overrides`) are given by it."""
        self._preparing = threading.Lock()
        self.configure(overridden(configuration, name))
        note_layer(self)

    def configure(self, configuration: Any) -> None:
        """Take a configuration, at first or in place of another; weights are prepared again at the next call."""
        self.configuration = configuration
        self._prepared = False

    def __call__(self, x: Any, return_output_dim: bool = False) -> Any:
        """The output, flattened to (1, 1, N*H*W, C) where the op does so; with (height, width) where asked for."""
        self._check_input(x)
        with named(self.name), telling(self.name):
            output = self.run(x)
        return (output, self.configuration.output_size) if return_output_dim else output

    def run(self, x: Any) -> Any:
        raise NotImplementedError

    def _first_alone(self, run: Callable[[], Any]) -> Any:
        """The first call prepares weights: others that come meanwhile wait for it, and use what it prepared."""
        if self._prepared:
            return run()
        with self._preparing:
            result = run()
            self._prepared = True
            return result

    def _check_input(self, x: Any) -> None:
        where = f" of layer {self.name!r}" if self.name else ""
        if not isinstance(x, ttnn.Tensor):
            raise ValueError(f"the input{where} is {shown(x)}; it must be a ttnn.Tensor.")
        if not self.takes_host_tensors and not ttnn.is_tensor_storage_on_device(x):
            raise ValueError(f"the input{where} is {shown(x)} on the host; it must be on the device.")


def as_images(x: Any, configuration: Any) -> Any:
    """A flattened (1, 1, N*H*W, C) as (N, H, W, C), for ops that need to see the images; else x itself."""
    images = (configuration.batch_size, configuration.input_height, configuration.input_width)
    flat = (1, 1, images[0] * images[1] * images[2])
    shape = tuple(x.shape)
    if shape[:-1] != flat or shape[:-1] == images:
        return x
    return ttnn.reshape(x, (*images, shape[-1]))
