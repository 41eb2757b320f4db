# SPDX-License-Identifier: Apache-2.0
"""ttnn.reshape, and views: the same memory under another shape."""
