# SPDX-License-Identifier: Apache-2.0
"""The search over the graph beside the best of all combinations, on random chains with skips that join again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import pytest

from tests.optimizer.chains import Chain, planned_chain, random_chain
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.optimizer.graph.options import layouts_and_blocks
from tt_cnn.optimizer.graph.searching import search_graph
from tt_cnn.optimizer.prediction import PlannedNetwork, Prediction, Refusal
from tt_cnn.optimizer.search import Budget, Search
from tt_cnn.virtual.arch import Card, card_by_name

WITHIN = 1.02
SHARE = 0.95
_COMBINATIONS = 700
"""Whole networks that brute force plans for one chain."""


class Drawn:
    """Some of the candidates of each layer, so that all combinations can be planned."""

    def __init__(self, network: PlannedNetwork, source: random.Random, count: int) -> None:
        card = card_by_name("n150")
        self.settings: dict[str, list[LayerSettings]] = {}
        for name, configuration in network.configurations.items():
            if not isinstance(configuration, ConvolutionConfiguration):
                continue
            every = layouts_and_blocks(name, configuration, card)
            self.settings[name] = source.sample(every, min(count, len(every)))

    def __call__(self, layer: str, configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
        return self.settings[layer]


def brute_force(network: PlannedNetwork, settings: Mapping[str, list[LayerSettings]]) -> float:
    best = float("inf")
    for combination in itertools.product(*([{}, *every] for every in settings.values())):
        predicted = network.predict(Assignment(dict(zip(settings, combination, strict=True))))
        if isinstance(predicted, Prediction):
            best = min(best, predicted.device_ns)
    return best


def compare(chain: Chain, source: random.Random) -> tuple[float, float, float] | None:
    """What the chain took before, what the search found, and the optimum; None where the card refuses the chain."""
    with planned_chain(chain) as network:
        if isinstance(network.predict(Assignment()), Refusal):
            return None
        count = max(2, int(_COMBINATIONS ** (1 / len(chain.links))) - 1)
        drawn = Drawn(network, source, count)
        search = Search.starting_from(network, budget=Budget(seconds=None))
        before = search.best.device_ns
        search_graph(search, network, "sharding", drawn)
        return before, search.best.device_ns, brute_force(network, drawn.settings)


def count(cases: int, seed: int, most: int) -> tuple[int, int]:
    """How many of the cases are within 2 % of the optimum, and in how many there was something to gain."""
    source = random.Random(seed)
    good = gained = done = 0
    while done < cases:
        chain = random_chain(source, most)
        compared = compare(chain, source)
        if compared is None:
            continue
        before, found, optimum = compared
        done += 1
        good += found <= WITHIN * optimum
        gained += optimum < before / WITHIN
        if found > WITHIN * optimum:
            print(f"{found / optimum - 1:.1%} above the optimum of {optimum:.0f} ns (before: {before:.0f}): {chain}")
    print(f"{good} of {cases} within 2 % of the optimum; in {gained} more than 2 % could be gained")
    return good, gained


def test_the_search_is_close_to_the_optimum() -> None:
    good, gained = count(cases=12, seed=18, most=4)
    assert good >= 11
    assert gained >= 6, "the cases must leave something to find"


@pytest.mark.long
def test_the_search_is_close_to_the_optimum_in_200_cases() -> None:
    good, gained = count(cases=200, seed=181, most=5)
    assert good >= SHARE * 200
    assert gained >= 100
