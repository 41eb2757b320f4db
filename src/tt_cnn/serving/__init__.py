# SPDX-License-Identifier: Apache-2.0
"""Models behind HTTP, in the open inference protocol v2: `tt-cnn serve`."""
