# SPDX-License-Identifier: Apache-2.0
"""Parameters are reached by name, by number and as attributes."""

from __future__ import annotations

import copy

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.preprocessing import (
    Conv2dArgs,
    DotAccessDict,
    ParameterDict,
    ParameterList,
    make_dot_access_dict,
    make_parameter_dict,
)


def test_both_ways_of_access() -> None:
    parameters = make_parameter_dict({"encoder1": {0: {"weight": 1}, 3: {"weight": 2}}})
    assert parameters["encoder1"][0]["weight"] == parameters.encoder1[0].weight == 1
    parameters.encoder1[3].weight = 5
    assert parameters["encoder1"][3]["weight"] == 5
    del parameters.encoder1[3].weight
    assert parameters.encoder1[3] == {}
    assert make_parameter_dict(parameters) is parameters


def test_a_name_that_is_missing_is_said_with_those_that_are_there() -> None:
    parameters = make_parameter_dict({"weight": 1, "bias": 2})
    for error in (KeyError, AttributeError):
        with pytest.raises(error, match="no entry 'wieght'; there are: weight, bias"):
            _ = parameters.wieght
        with pytest.raises(error, match="no entry 'gone'"):
            del parameters.gone
    assert not hasattr(parameters, "other") and parameters.get("other") is None
    assert copy.deepcopy(parameters) == parameters


def test_membership_of_a_list_is_by_number() -> None:
    parameters = ParameterList([ParameterDict(), ParameterDict()])
    assert 0 in parameters and 1 in parameters and 2 not in parameters and "0" not in parameters


def test_dot_access_dictionaries() -> None:
    arguments = Conv2dArgs(stride=(1, 1))
    nested = make_dot_access_dict({"a": {"b": 1}, "c": arguments}, ignore_types=(Conv2dArgs,))
    assert isinstance(nested, DotAccessDict) and nested.a.b == 1 and nested.c is arguments
    assert make_dot_access_dict(nested) is nested
    assert make_dot_access_dict(arguments) is arguments
    plain = {"x": {}}
    assert make_dot_access_dict(plain, ignore_types=dict) is plain


def test_the_text_of_a_tree_names_tensors_by_shape() -> None:
    weight = ttnn.from_torch(torch.zeros(2, 3), dtype=ttnn.bfloat16)
    tree = make_parameter_dict({"a": {"weight": weight, "raw": torch.zeros(4)}, "e": {}, "args": Conv2dArgs(k=1)})
    tree["list"] = ParameterList([ParameterDict(x=1)])
    tree["none"] = ParameterList()
    assert repr(tree).splitlines() == [
        "{",
        "  a: {",
        "    weight: ttnn.Tensor(shape=Shape([2, 3]), layout=Layout.ROW_MAJOR, dtype=DataType.BFLOAT16),",
        "    raw: torch.Tensor(shape=(4,), dtype=torch.float32)",
        "  },",
        "  e: {},",
        "  args: {",
        "    k: 1",
        "  },",
        "  list: [",
        "    {",
        "      x: 1",
        "    }",
        "  ],",
        "  none: []",
        "}",
    ]
    assert repr(ParameterList([1, 2])) == "[\n  1,\n  2\n]"
