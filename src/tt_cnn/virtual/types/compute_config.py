# SPDX-License-Identifier: Apache-2.0
"""How kernels compute: fidelity, accumulation, approximation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.types.enums import MathFidelity, ThrottleLevel


class DeviceComputeKernelConfig:
    """What signatures call any compute kernel config: a name to annotate with, which makes no objects."""

    def __init__(self) -> None:
        raise TypeError("DeviceComputeKernelConfig: no constructor defined! Make a WormholeComputeKernelConfig.")


@dataclass(kw_only=True, unsafe_hash=True)
class WormholeComputeKernelConfig:
    """Set by users to trade precision for speed. TT-NN uses this one for both architectures."""

    math_fidelity: MathFidelity = MathFidelity.Invalid
    math_approx_mode: bool = True
    fp32_dest_acc_en: bool = False
    packer_l1_acc: bool = False
    dst_full_sync_en: bool = False
    throttle_level: ThrottleLevel = ThrottleLevel.NO_THROTTLE


def init_device_compute_kernel_config(
    arch: Any,
    device_kernel_config: WormholeComputeKernelConfig | None = None,
    *,
    math_fidelity: MathFidelity = MathFidelity.LoFi,
    math_approx_mode: bool = True,
    fp32_dest_acc_en: bool = False,
    packer_l1_acc: bool = False,
    dst_full_sync_en: bool = False,
    throttle_level: ThrottleLevel = ThrottleLevel.NO_THROTTLE,
) -> WormholeComputeKernelConfig:
    """The configuration given, or one with TT-NN's defaults for a device (LoFi, approximate)."""
    if device_kernel_config is not None:
        return device_kernel_config
    return WormholeComputeKernelConfig(
        math_fidelity=math_fidelity,
        math_approx_mode=math_approx_mode,
        fp32_dest_acc_en=fp32_dest_acc_en,
        packer_l1_acc=packer_l1_acc,
        dst_full_sync_en=dst_full_sync_en,
        throttle_level=throttle_level,
    )
