"""Subscriptions in XSCL, which relate documents by values that they have in common."""

from __future__ import annotations

from perseid.api.subscription_table import SubscriptionTable, subscription_table
from perseid.api.subscriptions import SubscriptionSet, subscriptions

__all__ = [
    "SubscriptionSet",
    "SubscriptionTable",
    "subscription_table",
    "subscriptions",
]
