# SPDX-License-Identifier: Apache-2.0
"""The search over configurations: what makes a model faster, by planning, where the accuracy allows it."""
