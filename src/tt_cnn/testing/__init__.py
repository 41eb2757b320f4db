# SPDX-License-Identifier: Apache-2.0
"""Checking TT-NN models against torch: comparisons, random inputs, whole layers, device performance.

Names are looked up when they are asked for, so that the pytest plugin can choose the TT-NN in use first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tt_cnn.testing.inputs import create_random_input_tensor as create_random_input_tensor
    from tt_cnn.testing.inputs import pad_channels_up_to_target as pad_channels_up_to_target
    from tt_cnn.testing.layer_report import LayerComparison as LayerComparison
    from tt_cnn.testing.layer_report import LayerReport as LayerReport
    from tt_cnn.testing.layer_report import compare_layers as compare_layers
    from tt_cnn.testing.layers import verify_avgpool2d_from_config as verify_avgpool2d_from_config
    from tt_cnn.testing.layers import verify_conv2d_from_config as verify_conv2d_from_config
    from tt_cnn.testing.layers import verify_conv_transpose2d_from_config as verify_conv_transpose2d_from_config
    from tt_cnn.testing.layers import verify_global_avgpool2d_from_config as verify_global_avgpool2d_from_config
    from tt_cnn.testing.layers import verify_linear_from_config as verify_linear_from_config
    from tt_cnn.testing.layers import verify_maxpool2d_from_config as verify_maxpool2d_from_config
    from tt_cnn.testing.layers import verify_upsample_from_config as verify_upsample_from_config
    from tt_cnn.testing.op_comparison import op_report as op_report
    from tt_cnn.testing.pcc import assert_allclose as assert_allclose
    from tt_cnn.testing.pcc import assert_equal as assert_equal
    from tt_cnn.testing.pcc import assert_with_pcc as assert_with_pcc
    from tt_cnn.testing.pcc import assert_with_ulp as assert_with_ulp
    from tt_cnn.testing.pcc import check_with_pcc as check_with_pcc
    from tt_cnn.testing.pcc import comp_pcc as comp_pcc
    from tt_cnn.testing.performance import DevicePerformanceTestConfiguration as DevicePerformanceTestConfiguration
    from tt_cnn.testing.performance import run_device_perf_test as run_device_perf_test

_WHERE = {
    "inputs": ("create_random_input_tensor", "pad_channels_up_to_target"),
    "layer_report": ("LayerComparison", "LayerReport", "compare_layers"),
    "layers": (
        "verify_avgpool2d_from_config",
        "verify_conv2d_from_config",
        "verify_conv_transpose2d_from_config",
        "verify_global_avgpool2d_from_config",
        "verify_linear_from_config",
        "verify_maxpool2d_from_config",
        "verify_upsample_from_config",
    ),
    "op_comparison": ("op_report",),
    "pcc": (
        "agreement",
        "assert_agrees",
        "assert_allclose",
        "assert_equal",
        "assert_with_pcc",
        "assert_with_ulp",
        "check_with_pcc",
        "comp_pcc",
    ),
    "performance": ("DevicePerformanceTestConfiguration", "run_device_perf_test"),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_MODULE_OF]
