# SPDX-License-Identifier: Apache-2.0
"""What the card would do for one call: plans, their programs, and their places in memory."""
