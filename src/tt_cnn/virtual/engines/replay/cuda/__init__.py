# SPDX-License-Identifier: Apache-2.0
"""Replays on CUDA: a trace's graph in bfloat16, channels last, with fused kernels, as one CUDA graph."""
