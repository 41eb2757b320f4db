# SPDX-License-Identifier: Apache-2.0
"""ttnn.pad and ttnn.fill_implicit_tile_padding."""
