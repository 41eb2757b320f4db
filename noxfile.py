# SPDX-License-Identifier: Apache-2.0
"""The wheel on other Pythons, and with the oldest dependencies: `nox -s wheel-3.12`, `nox -s lowest`.

Every session builds the wheel, installs it in a fresh environment outside of the checkout, and runs it there
(`scripts/check_wheel.sh`). On 3.11 that is the torch of `constraints.txt`. Where no wheel of torch for the CPU is to be
had for an interpreter, pip takes the one with CUDA's libraries, of some 3 GB.
"""

from __future__ import annotations

import re
from pathlib import Path

import nox

PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
EXTRAS = ("cpu", "eval", "video", "weights")
ROOT = Path(__file__).parent

nox.options.sessions = ["wheel"]
nox.options.error_on_missing_interpreters = False


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """With the newest dependencies that pip finds. `TORCH` names another torch."""
    torch = {"3.11": _pinned("torch")}.get(str(session.python), "torch")
    _check(session, {"TORCH": session.env.get("TORCH") or torch})


@nox.session(python="3.10")
def lowest(session: nox.Session) -> None:
    """With the lower bounds of `pyproject.toml`, for the package and `EXTRAS`, on the oldest Python."""
    bounds = Path(session.create_tmp()) / "lowest.txt"
    bounds.write_text("\n".join(lower_bounds((ROOT / "pyproject.toml").read_text())) + "\n")
    torch = next(one for one in bounds.read_text().splitlines() if one.startswith("torch=="))
    _check(session, {"TORCH": torch, "CONSTRAINTS": str(bounds.resolve()), "EXTRAS": ",".join(EXTRAS)})


def lower_bounds(project: str) -> list[str]:
    """`name==version` for every requirement `name>=version` of the package and of `EXTRAS`."""
    lists = [re.search(r"^dependencies = \[(.*?)^\]", project, re.MULTILINE | re.DOTALL)]
    lists += [re.search(rf"^{extra} = \[(.*?)\]", project, re.MULTILINE) for extra in EXTRAS]
    return [
        f"{name}=={version}" for one in lists if one for name, version in re.findall(r'"([\w.-]+)>=([\w.]+)"', one[1])
    ]


def _pinned(package: str) -> str:
    return next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith(f"{package}=="))


def _check(session: nox.Session, environment: dict[str, str]) -> None:
    python = str(Path(session.bin) / "python")
    session.run("bash", "scripts/check_wheel.sh", env={"PYTHON": python, **environment}, external=True)
