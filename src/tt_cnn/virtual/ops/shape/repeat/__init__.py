# SPDX-License-Identifier: Apache-2.0
"""ttnn.repeat, repeat_interleave and expand."""
