# SPDX-License-Identifier: Apache-2.0
"""T3000 (LoudBox, QuietBox): four n300 in one machine."""

from dataclasses import replace

from tt_cnn.virtual.arch.n300 import N300

T3000 = replace(N300, name="t3000", chips=8, links=4)
