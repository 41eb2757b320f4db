# SPDX-License-Identifier: Apache-2.0
"""Processes that measure on request, so that several can take turns and none has another's memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Asked:
    """A script that answers with lines of JSON: one when it is ready, then one for each line that it is given."""

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd,
        )  # fmt: skip
        try:
            self.answer = self._answer()
        except BaseException:
            self.close()
            raise

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a measuring process ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, line: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def answer(values: Mapping[str, Any]) -> None:
    """What a script says in reply."""
    print(json.dumps(values), flush=True)
