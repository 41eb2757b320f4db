# SPDX-License-Identifier: Apache-2.0
"""RepVGG's two forms compute the same."""

from __future__ import annotations

import torch

from tt_cnn.zoo import architecture, create_architecture
from tt_cnn.zoo.repvgg import deployed_weights


def test_the_deployed_form_is_the_trained_one() -> None:
    trained, deployed = create_architecture("repvgg_a0"), architecture("repvgg_a0_deploy").factory().eval()
    deployed.load_state_dict(deployed_weights(trained))
    picture = architecture("repvgg_a0").example_input(seed=5)
    with torch.inference_mode():
        torch.testing.assert_close(deployed(picture), trained(picture), atol=1e-4, rtol=1e-3)
