"""TT-CNN: vision models on Tenstorrent cards, with a virtual card that runs anywhere.

`from tt_cnn import ttnn` gives the TT-NN in use (see `tt_cnn.runtime`); it is imported only then.
"""

from typing import TYPE_CHECKING, Any

from tt_cnn.signpost import signpost as signpost

if TYPE_CHECKING:
    from tt_cnn.virtual import ttnn as ttnn


def __getattr__(name: str) -> Any:
    if name == "ttnn":
        from tt_cnn.runtime import select

        return select()
    raise AttributeError(f"module 'tt_cnn' has no attribute {name!r}")
