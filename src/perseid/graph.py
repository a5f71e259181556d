"""Live graphs: metamodels with queries and rules, streams of changes, reactions and repairs."""

from __future__ import annotations

from perseid.api.models import find_repairs, frames, model, react, select_emitted
from perseid.engines.models.frame_stream import Frames
from perseid.engines.models.metamodel import Metamodel, metamodel
from perseid.engines.models.quick_fixes import QuickFix, QuickFixes
from perseid.engines.models.reactions import Reaction
from perseid.engines.models.stream import Models

__all__ = [
    "Frames",
    "Metamodel",
    "Models",
    "QuickFix",
    "QuickFixes",
    "Reaction",
    "find_repairs",
    "frames",
    "metamodel",
    "model",
    "react",
    "select_emitted",
]
