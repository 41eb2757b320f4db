# SPDX-License-Identifier: Apache-2.0
"""Cards: opening, closing, and what an open one has."""
