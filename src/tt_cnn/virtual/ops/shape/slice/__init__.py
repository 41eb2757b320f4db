# SPDX-License-Identifier: Apache-2.0
"""ttnn.slice, and indexing with brackets."""
