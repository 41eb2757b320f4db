# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls: their types, those that are refused, and calls written as scripts."""
