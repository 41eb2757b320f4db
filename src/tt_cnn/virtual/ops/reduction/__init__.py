# SPDX-License-Identifier: Apache-2.0
"""Reductions: sum, mean, max, min, var, std, prod, cumsum, argmax, topk."""
