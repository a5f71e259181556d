"""How much the property tests try: HYPOTHESIS_PROFILE is ``ci`` (the default), ``long`` or ``deep``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci", derandomize=True, max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
for name, examples in (("long", 2_000), ("deep", 10_000)):
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
