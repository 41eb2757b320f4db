# SPDX-License-Identifier: Apache-2.0
"""Write examples/ again: each network of examples/nets, brought up by the command.

    python scripts/write_examples.py [NAME ...]

Run it when the code that bringup generates has changed; tests/bringup/test_examples.py fails until then.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = {"senet": "SENet", "unet": "UNet", "hybrid": "Hybrid"}
"""Each network's class by the name of its file."""
INPUT = "1x3x64x64"


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in EXAMPLES]
    if unknown:
        print(f"there is no example {unknown[0]!r}; there are {', '.join(EXAMPLES)}", file=sys.stderr)
        return 2
    for name in names or EXAMPLES:
        model = f"examples/nets/{name}.py:{EXAMPLES[name]}"
        command = ["bringup", model, "--input", INPUT, "-o", f"examples/{name}", "--overwrite"]
        done = subprocess.run([sys.executable, "-m", "tt_cnn.cli", *command], cwd=ROOT, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
