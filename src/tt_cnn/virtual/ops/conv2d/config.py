# SPDX-License-Identifier: Apache-2.0
"""`Conv2dConfig` and the names of the slice configurations, with TT-NN's fields, defaults and printed form."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from tt_cnn.virtual.ops.aliases import current_spelling
from tt_cnn.virtual.ops.sliding_window.slice_config import Op2DSliceConfig, SliceTypeEnum, Slicing
from tt_cnn.virtual.types.enums import DataType, Layout, NativeEnum, PaddingMode, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.kept_hash import kept_hash
from tt_cnn.virtual.types.unary import UnaryOpType, UnaryWithParam, activation


@dataclass(kw_only=True, eq=False)
class Conv2dConfig:
    """Device-specific options of conv1d, conv2d and conv_transpose2d. All fields can be set after construction."""

    weights_dtype: DataType | None = None
    activation: UnaryWithParam | UnaryOpType | None = None
    deallocate_activation: bool = False
    reallocate_halo_output: bool = True
    config_tensors_in_dram: bool = False
    act_block_h_override: int = 0
    act_block_w_div: int = 1
    reshard_if_not_optimal: bool = False
    override_sharding_config: bool = False
    shard_layout: TensorMemoryLayout | None = None
    core_grid: CoreRangeSet | None = None
    transpose_shards: bool = False
    output_layout: Layout = Layout.TILE
    enable_act_double_buffer: bool = False
    enable_weights_double_buffer: bool = False
    full_inner_dim: bool = False
    enable_kernel_stride_folding: bool | None = None
    enable_activation_reuse: bool = False
    force_split_reader: bool | None = None
    override_output_sharding_config: bool = False
    padding_mode: PaddingMode = PaddingMode.Zeros

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = _KINDS.get(name)
        if kinds is None:
            raise AttributeError(f"'Conv2dConfig' object has no attribute {name!r}")
        wrong_number = kinds == (int,) and isinstance(value, int) and not 0 <= value < 2**32
        if wrong_number or not isinstance(value, kinds):
            raise TypeError(
                f"__init__(): incompatible function arguments: Conv2dConfig.{name} is {value!r}; it takes "
                + " or ".join(k.__name__ for k in kinds)
            )
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Conv2dConfig({','.join(f'{f.name}={_native(getattr(self, f.name))}' for f in fields(self))})"

    def frozen(self) -> Settings:
        """The values that planning works with: hashable, and no longer changed by the user."""
        values = self.__dict__
        return _settings(**values if self.activation is None else {**values, "activation": activation(self.activation)})


def _with_old_spellings(init: Callable[..., None]) -> Callable[..., None]:
    """Only what is given is checked: defaults have the right types."""

    @functools.wraps(init)
    def __init__(self: Conv2dConfig, *args: Any, **kwargs: Any) -> None:
        given = current_spelling("Conv2dConfig", kwargs)
        if args or not _KINDS.keys() >= given.keys():
            init(self, *args, **given)
        self.__dict__.update(_VALUES)
        for name, value in given.items():
            setattr(self, name, value)

    return __init__


Conv2dConfig.__init__ = _with_old_spellings(Conv2dConfig.__init__)  # type: ignore[method-assign]

_KINDS: dict[str, tuple[type, ...]] = {
    "weights_dtype": (DataType, type(None)),
    "activation": (UnaryWithParam, UnaryOpType, type(None)),
    "act_block_h_override": (int,),
    "act_block_w_div": (int,),
    "shard_layout": (TensorMemoryLayout, type(None)),
    "core_grid": (CoreRangeSet, type(None)),
    "output_layout": (Layout,),
    "enable_kernel_stride_folding": (bool, type(None)),
    "force_split_reader": (bool, type(None)),
    "padding_mode": (PaddingMode,),
}
_VALUES = {f.name: f.default for f in fields(Conv2dConfig)}
_KINDS.update({f.name: (bool,) for f in fields(Conv2dConfig) if f.name not in _KINDS})


def _native(value: Any) -> str:
    """A value as the C++ library prints it."""
    if value is None:
        return "std::nullopt"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, UnaryOpType):
        value = UnaryWithParam(value)
    return value.native if isinstance(value, NativeEnum) else repr(value)


@kept_hash
@dataclass(frozen=True)
class Settings:
    """A `Conv2dConfig` as planning knows it."""

    weights_dtype: DataType | None = None
    activation: tuple[UnaryOpType, tuple[float, ...]] | None = None
    deallocate_activation: bool = False
    reallocate_halo_output: bool = True
    config_tensors_in_dram: bool = False
    act_block_h_override: int = 0
    act_block_w_div: int = 1
    reshard_if_not_optimal: bool = False
    override_sharding_config: bool = False
    shard_layout: TensorMemoryLayout | None = None
    core_grid: CoreRangeSet | None = None
    transpose_shards: bool = False
    output_layout: Layout = Layout.TILE
    enable_act_double_buffer: bool = False
    enable_weights_double_buffer: bool = False
    full_inner_dim: bool = False
    enable_kernel_stride_folding: bool | None = None
    enable_activation_reuse: bool = False
    force_split_reader: bool | None = None
    override_output_sharding_config: bool = False
    padding_mode: PaddingMode = PaddingMode.Zeros

    def but(self, **changes: Any) -> Settings:
        return _settings(**{**{name: getattr(self, name) for name in _VALUES}, **changes})


_settings = functools.lru_cache(maxsize=4096, typed=True)(Settings)
"""The same settings are the same object: a network has few, and keys that have them are compared quickly."""
Conv1dConfig = Conv2dConfig
Conv2dSliceConfig = Op2DSliceConfig
Conv2dL1Full = SliceTypeEnum.L1Full
Conv2dDRAMSliceHeight = Op2DDRAMSliceHeight = SliceTypeEnum.DRAMSliceHeight
Conv2dDRAMSliceWidth = Op2DDRAMSliceWidth = SliceTypeEnum.DRAMSliceWidth
Conv2dL1FullSliceConfig = Op2DL1FullSliceConfig = Op2DSliceConfig(slice_type=SliceTypeEnum.L1Full)

__all__ = [
    "Conv1dConfig",
    "Conv2dConfig",
    "Conv2dDRAMSliceHeight",
    "Conv2dDRAMSliceWidth",
    "Conv2dL1Full",
    "Conv2dL1FullSliceConfig",
    "Conv2dSliceConfig",
    "Op2DDRAMSliceHeight",
    "Op2DDRAMSliceWidth",
    "Op2DL1FullSliceConfig",
    "Op2DSliceConfig",
    "Settings",
    "SliceTypeEnum",
    "Slicing",
]
