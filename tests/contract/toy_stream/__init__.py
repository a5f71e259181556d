"""The smallest kind of stream: one package, which one line registers. docs/engines.md describes it."""

TOY_KIND = "tests.contract.toy_stream.kind:ToyStreamKind"
"""The line of the registry: ``STREAM_KINDS["toy"] = TOY_KIND``."""
