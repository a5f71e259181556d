"""The sequence engine: one automaton over the ordered events of a key. Most patterns run on it."""
