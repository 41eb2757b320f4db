"""Reductions: sum, mean, max, min, var, std, prod, cumsum, argmax, topk."""
