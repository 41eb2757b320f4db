# SPDX-License-Identifier: Apache-2.0
"""Ray, where one machine is not enough: a model behind its pipeline in actors with a card each.

Nothing heavy is imported here: an actor takes its card before TT-NN is imported.
"""
