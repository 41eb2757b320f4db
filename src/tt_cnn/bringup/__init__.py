# SPDX-License-Identifier: Apache-2.0
"""From a torch module to a folder of TT-CNN code: graph, lowering, settings, code, tests."""
