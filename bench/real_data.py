"""Folder of data sets that the repository does not contain: next to the project, or PERSEID_DATA."""

from __future__ import annotations

import os
from pathlib import Path

DATA = Path(os.environ.get("PERSEID_DATA") or Path(__file__).parents[2] / "shared" / "data")
