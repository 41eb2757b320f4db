# SPDX-License-Identifier: Apache-2.0
"""Outputs of a model: one tensor, or lists and tuples of them, nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tt_cnn import ttnn


class OutputSpec(NamedTuple):
    """What one output tensor is, on the card and on the host."""

    shape: Any
    dtype: Any
    layout: Any


def is_nested(outputs: Any) -> bool:
    """A specification is a tuple too, and yet one output."""
    return isinstance(outputs, (list, tuple)) and not isinstance(outputs, OutputSpec)


def map_outputs(function: Callable[..., Any], outputs: Any, *others: Any) -> Any:
    """The same structure with each leaf replaced; the others must have the structure of the first."""
    if not is_nested(outputs):
        return function(outputs, *others)
    mapped = [map_outputs(function, *leaves) for leaves in zip(outputs, *others, strict=True)]
    return mapped if isinstance(outputs, list) else tuple(mapped)


def leaves_of(outputs: Any) -> Iterator[Any]:
    if is_nested(outputs):
        for one in outputs:
            yield from leaves_of(one)
    else:
        yield outputs


def schema_of(outputs: Any, name: str = "the model's output") -> Any:
    """The specification of each output; an error naming the one that is no device tensor."""
    if is_nested(outputs):
        described = [schema_of(one, f"{name}[{i}]") for i, one in enumerate(outputs)]
        return described if isinstance(outputs, list) else tuple(described)
    if not isinstance(outputs, ttnn.Tensor):
        raise TypeError(
            f"{name} is a {type(outputs).__name__}; a model returns a ttnn.Tensor, or lists and tuples of them"
        )
    if outputs.storage_type() != ttnn.StorageType.DEVICE:
        raise ValueError(f"{name} is on the host; a model leaves its outputs on the device, the pipeline reads them")
    return OutputSpec(outputs.shape, outputs.dtype, outputs.layout)


def as_specs(schema: Any) -> Any:
    """A schema as a user's own executor gives it: (shape, dtype, layout) for each output."""
    if isinstance(schema, (list, tuple)) and len(schema) == 3 and isinstance(schema[1], ttnn.DataType):
        return OutputSpec(*schema)
    return type(schema)(as_specs(one) for one in schema)


def one_for_each(value: Any, outputs: Any, name: str) -> Any:
    """A value given once for all outputs, or in their structure, in their structure."""
    if not is_nested(value):
        return map_outputs(lambda _: value, outputs)
    if not is_nested(outputs) or len(value) != len(outputs):
        expected = f"{len(outputs)} outputs" if is_nested(outputs) else "one output"
        raise ValueError(f"{name} has {len(value)} entries where the model returns {expected}")
    matched = [one_for_each(v, o, f"{name}[{i}]") for i, (v, o) in enumerate(zip(value, outputs, strict=True))]
    return matched if isinstance(outputs, list) else tuple(matched)
