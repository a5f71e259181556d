"""Generator of very many tree patterns, such as subscriptions of an auction site."""

from __future__ import annotations

import random

_RECORDS = {
    "item": ("location", "quantity", "name", "payment", "shipping"),
    "person": ("name", "emailaddress", "phone", "homepage", "creditcard"),
    "open_auction": ("initial", "reserve", "current", "privacy", "quantity", "type"),
    "closed_auction": ("price", "date", "quantity", "type"),
    "category": ("name",),
}
"""Children with text, by record."""
_INSIDE = {
    "item": ("keyword", "emph", "from", "to", "incategory"),
    "person": ("city", "country", "zipcode", "education", "age"),
    "open_auction": ("increase", "personref", "author", "happiness", "start"),
    "closed_auction": ("author", "happiness", "keyword"),
    "category": ("keyword", "bold"),
}


def generate_patterns(count: int, seed: int = 17) -> list[str]:
    """Generate distinct patterns; most compare a text that few records have, some have only structural conditions."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        record = chance.choice(sorted(_RECORDS))
        child, inside = chance.choice(_RECORDS[record]), chance.choice(_INSIDE[record])
        number, word = chance.randint(1, 400), f"w{chance.randint(1, 4000)}"
        form = chance.random()
        if form < 0.4:
            text = f"//{record}->x[/{child} = '{word}']"
        elif form < 0.7:
            text = f"//{record}->x[/{child} = {number}][//{inside}]"
        elif form < 0.9:
            text = f"//{record}[//{inside}->y = '{word}']/{child}->x"
        else:
            text = f"//{record}(/{child}->x[. = '{word}']:/*)"
        found[text] = None
    return list(found)
