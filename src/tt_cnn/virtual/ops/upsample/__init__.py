# SPDX-License-Identifier: Apache-2.0
"""Upsampling: nearest and bilinear."""
