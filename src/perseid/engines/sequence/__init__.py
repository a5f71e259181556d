"""One automaton over keyed events in order: sequences, the engine most patterns run on."""
