# SPDX-License-Identifier: Apache-2.0
"""From a torch model to the parameters and arguments of its TT-NN counterpart (`ttnn.model_preprocessing`)."""

from tt_cnn.preprocessing.batch_norm import find_conv_batch_norm_pairs, fold_batch_norm2d_into_conv2d
from tt_cnn.preprocessing.dot_access import DotAccessDict, make_dot_access_dict
from tt_cnn.preprocessing.model import BatchNormNotFolded, preprocess_model_parameters
from tt_cnn.preprocessing.module_args import (
    AdaptiveAvgPool2dArgs,
    AvgPool2dArgs,
    Conv2dArgs,
    ConvTranspose2dArgs,
    GroupNormArgs,
    LinearArgs,
    MaxPool2dArgs,
    ModuleArgs,
    UpsampleArgs,
    infer_layer_arguments,
    infer_ttnn_module_args,
)
from tt_cnn.preprocessing.parameters import ParameterDict, ParameterList, make_parameter_dict
from tt_cnn.preprocessing.tensors import (
    preprocess_conv_bias,
    preprocess_embedding_weight,
    preprocess_layernorm_parameter,
    preprocess_linear_bias,
    preprocess_linear_weight,
)
from tt_cnn.preprocessing.walking import convert_torch_model_to_ttnn_model, move_to_device

__all__ = [
    "AdaptiveAvgPool2dArgs",
    "AvgPool2dArgs",
    "BatchNormNotFolded",
    "Conv2dArgs",
    "ConvTranspose2dArgs",
    "DotAccessDict",
    "GroupNormArgs",
    "LinearArgs",
    "MaxPool2dArgs",
    "ModuleArgs",
    "ParameterDict",
    "ParameterList",
    "UpsampleArgs",
    "convert_torch_model_to_ttnn_model",
    "find_conv_batch_norm_pairs",
    "fold_batch_norm2d_into_conv2d",
    "infer_layer_arguments",
    "infer_ttnn_module_args",
    "make_dot_access_dict",
    "make_parameter_dict",
    "move_to_device",
    "preprocess_conv_bias",
    "preprocess_embedding_weight",
    "preprocess_layernorm_parameter",
    "preprocess_linear_bias",
    "preprocess_linear_weight",
    "preprocess_model_parameters",
]
