# SPDX-License-Identifier: Apache-2.0
"""Convolutions and products in 8 bits, as many as a guard on the whole graph's outputs allows."""
