# SPDX-License-Identifier: Apache-2.0
"""Products of bfloat16 numbers two at a time, where the processor has them: they are exact, and added up in float32.

What the card multiplies at LoFi has five and seven significant bits, what it holds in bfloat16 eight.
"""

from __future__ import annotations

import torch

from tt_cnn.virtual.engines.replay.kernels.instructions import direct_weights
from tt_cnn.virtual.kernel_library import library


def paired_weights(weight: torch.Tensor, scale: float, threads: int) -> torch.Tensor | None:
    """Weights (out, in, height, width) as panels of pairs of input channels, without the factor that is in them.

    None where that leaves no bfloat16 numbers, or the processor does not multiply such.
    """
    if not library().multiplies_pairs() or weight.shape[1] % 2:
        return None
    numbers = (weight / scale).bfloat16()
    if not torch.equal(numbers.float() * scale, weight):
        return None
    pairs = torch.stack([numbers[:, ::2], numbers[:, 1::2]], -1)  # the even channel is the lower half
    return direct_weights(pairs.view(torch.float32)[..., 0], threads)
