# SPDX-License-Identifier: Apache-2.0
"""conv2d: configuration, plan, prepared weights and numbers."""
