# SPDX-License-Identifier: Apache-2.0
"""Two queues on the same memory: what a real card would only now and then get right."""
