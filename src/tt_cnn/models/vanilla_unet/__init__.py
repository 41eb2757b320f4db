# SPDX-License-Identifier: Apache-2.0
"""Vanilla UNet: a mask for every image of 480x640."""

from pathlib import Path

from tt_cnn.models.registry import ModelEntry, ShippedWeights
from tt_cnn.models.vanilla_unet.reference.model import UNet
from tt_cnn.models.vanilla_unet.reference.public_names import from_public
from tt_cnn.models.vanilla_unet.tt.model import TtUNet

MODELS = (
    ModelEntry(
        name="vanilla_unet",
        title="Vanilla UNet",
        task="segmentation",
        reference=UNet,
        tt=TtUNet,
        gates={"mask": 0.977},
        resolutions=((480, 640),),
        l1_small_size=53248,
        shipped=ShippedWeights(Path(__file__).parent / "weights" / "unet16.safetensors", {"features": 16}),
        load_public=from_public,
        aliases=("unet",),
    ),
)
