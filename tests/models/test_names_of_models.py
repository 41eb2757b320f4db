# SPDX-License-Identifier: Apache-2.0
"""Errors of names and sizes of models, and `python -m tt_cnn`."""

import subprocess
import sys

import pytest

from tt_cnn import ttnn
from tt_cnn.models import create_tt, model_entry


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one() -> None:
    with pytest.raises(ValueError, match="there is no model 'resnet5'; did you mean resnet50"):
        model_entry("resnet5")
    with pytest.raises(ValueError) as other:
        model_entry("bert")
    assert "did you mean" not in str(other.value) and "vanilla_unet" in str(other.value)


def test_sizes_are_written_as_the_options_take_them() -> None:
    device = ttnn.open_device(device_id=0, l1_small_size=16384)
    try:
        with pytest.raises(ValueError, match="resolution is 100x100; Vanilla UNet is tuned for 480x640"):
            create_tt("vanilla_unet", device, resolution=(100, 100))
    finally:
        ttnn.close_device(device)


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "tt_cnn", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tt-cnn ")
