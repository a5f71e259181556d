"""Where real data lies that is not ours to ship: beside the project, or where the variable PERSEID_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

DATA = Path(os.environ.get("PERSEID_DATA") or Path(__file__).parents[2] / "shared" / "data")
