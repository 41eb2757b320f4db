# SPDX-License-Identifier: Apache-2.0
"""Normalizations: softmax, layer, RMS, batch and group norm."""
