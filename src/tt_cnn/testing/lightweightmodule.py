# SPDX-License-Identifier: Apache-2.0
"""`models.common.lightweightmodule`: a module of TT-NN's models, which is called as torch's are and holds nothing."""

from __future__ import annotations

from typing import Any


class LightweightModule:
    """`module(...)` is `module.forward(...)`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward")
