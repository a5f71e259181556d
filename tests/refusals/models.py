"""Rejected combinations for live models, frames, rules and repairs."""

from tests.refusals.case import Case

TITLE = "Models, rules and repairs"
_CALM = "pattern calm match found busy b within 1 minute partition by host suppress 1 minute by host "
CASES = (
    Case('pattern("pattern p match found busy b pattern q match change set Host.cpu c").why_not(model())', "why_not requires one pattern, and this set has several", "one pattern at a time"),
    Case('pattern("pattern p match found busy b pattern q match change set Host.cpu c").count(model())', "These patterns need different events of the model", "one pattern at a time"),
    Case('pattern("match found named a -> found other b within 1 hour").match(model("query other(host, name) find host: Host let name = host.cpu"))', "Parameter 'name' has one type in the query other and another in a different query of the stream", "rename a parameter"),
    Case('pattern("match found on a -> change set Host.cpu b within 1 hour").match(model("query on(old) find old: Host"))', "Parameter 'old' has another type than the column 'old' of elementary changes", "rename the parameter"),
    Case('pattern("match found named a -> Login b within 1 hour").match(model(events=ps.events({"Login": [{"ts": START, "name": 1}]})))', "Column 'name' has one type in additional events and another in events of the model", "rename one of them"),
    Case('ps.graph.react(model("rule r on found busy(host) do emit told(host)", data=past_changes, key="site", events=ps.events({"A": df}, time="ts", key="site")))', "On Spark, rules do not support events beside the model", "local rows", spark=True),
    Case('pattern("match found on n").match(model("query on(site) find site: Host", key="site"))', "'site' is both a parameter of the query on and the key column of the models", "another name"),
    Case(f'ps.graph.react(model("{_CALM} rule r on calm do emit told(host)"))', "Pattern calm cannot trigger a rule: it has a suppress clause", "no `suppress`"),
    Case('ps.graph.find_repairs(model("query warm(host) find host: Host where moving_avg(host.cpu, 2) > 1 repair r on warm(host) cost 1 do set host.cpu = 1"), objectives="warm")', "A search for repairs tries changes at one time, and query warm has a moving window", "no moving averages"),
    Case('ps.graph.find_repairs(model("repair r on busy(host) cost 1 do set host.cpu = 1", nodes="node Tagged (tags array<string>)"), objectives="busy")', "A search for repairs supports only single values, and Tagged.tags is array<string>", "single values"),
    Case('pattern("match change set Host.cpu a -> change set Host.name b within 1 hour").match(model())', "The changed attributes have several types, but the columns old and new have one", "`change set Host.cpu`"),
    Case('pattern("pattern p match found busy b partition by host pattern q match p x -> p y within 1 hour partition by host").match(model(data=past_changes, key="site"))', "A pattern over a model that uses matches of another pattern is unsupported on Spark", "local rows", spark=True),
    Case('model(data=past_changes, key="site").events("busy")', "model.events() needs local changes, got a Spark DataFrame", "`match(…)` of a pattern", spark=True),
    Case('ps.graph.react(model("rule r on found busy(host) do emit told(host)", data=changes, key="site"), until=START)', "until= is unsupported on a stream: its time advances with the watermark", "remove `until`", spark=True),
    Case('ps.graph.react(model("rule r on found busy(host) do emit told(host)", data=changes, key="site"), observation=Observation())', "observation= requires a batch DataFrame: a streaming query reports its counts for each batch", "`ps.progress(query)`", spark=True),
)  # fmt: skip
