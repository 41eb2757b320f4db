# SPDX-License-Identifier: Apache-2.0
"""TT-CNN: vision models on Tenstorrent cards, with a virtual card that runs anywhere.

`from tt_cnn import ttnn` gives the TT-NN in use (see `tt_cnn.runtime`); it is imported only then.
"""

from typing import TYPE_CHECKING, Any

from tt_cnn.signpost import signpost as signpost

if TYPE_CHECKING:
    __version__: str
    from tt_cnn.virtual import ttnn as ttnn


def _installed_version() -> str:
    """Of the installed package; `unknown` where its source is only on the path. Asked for when it is read: to look for
    it takes as long as importing this module."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tt-cnn")
    except PackageNotFoundError:
        return "unknown"


def __getattr__(name: str) -> Any:
    if name == "ttnn":
        from tt_cnn.runtime import select

        return select()
    if name == "__version__":
        return _installed_version()
    raise AttributeError(f"module 'tt_cnn' has no attribute {name!r}")
