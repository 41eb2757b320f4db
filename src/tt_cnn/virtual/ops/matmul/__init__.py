# SPDX-License-Identifier: Apache-2.0
"""Matrix products: `matmul`, `linear`, `addmm`, and the planning of one matmul step for other ops (`program.py`)."""
