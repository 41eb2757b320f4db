# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn completion`: what a shell needs to complete commands, options, models and cards.

The shells ask `tt-cnn complete`, which is quick: neither torch nor a model is imported for it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MODELS = ("efficientnet_lite0", "mobilenetv2", "resnet50", "vanilla_unet", "yolov4", "yolov8s", "yolov8x")
EXECUTORS = ("plain", "trace", "2cq", "trace+2cq", "trace+2cq+io")
CARDS = ("n150", "n300", "t3000", "galaxy", "p150", "p100")
ENGINES = ("cpu", "kernels", "openvino", "onnxruntime", "torch", "cuda")
_VALUES: dict[str, tuple[str, ...]] = {
    "--card": CARDS,
    "--executor": EXECUTORS,
    "--pipeline": EXECUTORS,
    "--engine": ENGINES,
    "--numerics": ("native", "device"),
    "--goal": ("latency", "throughput", "memory"),
    "--weights": ("shipped", "public", "seeded"),
    "--data": ("generated", "skimage"),
    "--helpers": ("missing", "all", "none"),
}
_PRECISIONS = {"bench": ("float32", "int8", "fp8")}
_MODELS_PRECISIONS = ("tuned", "bfloat16")


class Shell(str, Enum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


_SCRIPTS = {
    Shell.bash: """_tt_cnn() {
    local IFS=$'\\n'
    COMPREPLY=( $(tt-cnn complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) )
}
complete -o default -F _tt_cnn tt-cnn
""",
    Shell.zsh: """#compdef tt-cnn
_tt_cnn() {
    local -a found
    found=("${(@f)$(tt-cnn complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found[1]" ]]; then compadd -- $found; else _files; fi
}
if [[ "$zsh_eval_context[-1]" == loadautofunc ]]; then
    _tt_cnn "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _tt_cnn tt-cnn
fi
""",
    Shell.fish: """function __tt_cnn_complete
    set -l words (commandline -opc) (commandline -ct)
    tt-cnn complete -- $words[2..-1] 2>/dev/null
end
complete -c tt-cnn -a '(__tt_cnn_complete)'
""",
}


def completion(shell: Annotated[Shell, typer.Argument(help="The shell to write it for.", show_default=False)]) -> None:
    """Print what makes a shell complete commands, options, models and cards.

    \b
    eval "$(tt-cnn completion bash)"          in ~/.bashrc
    eval "$(tt-cnn completion zsh)"           in ~/.zshrc
    tt-cnn completion fish > ~/.config/fish/completions/tt-cnn.fish
    """
    typer.echo(_SCRIPTS[shell], nl=False)


def complete(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(help="What follows tt-cnn, the last word unfinished.")] = None,
) -> None:
    """What a word may become, a line each; nothing where it is a file's name. For the scripts of `completion`."""
    parent = context.find_root()
    for candidate in candidates(parent.command, words or [""]):
        typer.echo(candidate)


def candidates(command: Any, words: Sequence[str]) -> list[str]:
    """`command` is the whole `tt-cnn`; the last word is the one that is to be completed."""
    *before, last = words
    if not before:
        return _beginning(last, [*_visible(command.commands), "--help", "--version"])
    name = before[0]
    own = command.commands.get(name)
    if own is None:
        return []
    options = {one: parameter for parameter in own.params for one in parameter.opts if one.startswith("-")}
    if last.startswith("-"):
        return _beginning(last, [*(one for one in options if one.startswith("--")), "--help"])
    asked = options.get(before[-1])
    if asked is not None and not getattr(asked, "is_flag", False):
        return _beginning(last, _values(name, before[-1]))
    return _beginning(last, _arguments(own))


def _visible(commands: Mapping[str, Any]) -> list[str]:
    return [name for name, one in commands.items() if not one.hidden]


def _values(command: str, option: str) -> Iterable[str]:
    if option == "--precision":
        return _PRECISIONS.get(command, _MODELS_PRECISIONS)
    return _VALUES.get(option, ())


def _arguments(command: Any) -> Iterable[str]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            if parameter.name == "shell":
                return [one.value for one in Shell]
            return MODELS if parameter.name == "model" and command.name != "bringup" else ()
    return ()


def _beginning(last: str, values: Iterable[str]) -> list[str]:
    return [value for value in values if value.startswith(last)]
