# SPDX-License-Identifier: Apache-2.0
"""The card's units on the GPU, with the bits of the functions that define them."""
