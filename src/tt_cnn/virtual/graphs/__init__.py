# SPDX-License-Identifier: Apache-2.0
"""Graph capture, and what a captured graph tells."""
