"""Live models, frames, rules and repairs."""

from tests.refusals.case import Case

TITLE = "Models, rules and repairs"
_CALM = "pattern calm match found busy b within 1 minute partition by host suppress 1 minute by host "
CASES = (
    Case('pattern("pattern p match found busy b pattern q match change set Host.cpu c").why_not(model())', "why_not is asked of one pattern", "ask one by one"),
    Case('pattern("pattern p match found busy b pattern q match change set Host.cpu c").count(model())', "asked of different events of the model", "ask one by one"),
    Case('pattern("match found named a -> found other b within 1 hour").match(model("query other(host, name) find host: Host let name = host.cpu"))', "of one type in a query and of another", "rename a parameter"),
    Case('pattern("match found on a -> change set Host.cpu b within 1 hour").match(model("query on(old) find old: Host"))', "as a column of elementary changes is", "rename the parameter"),
    Case('pattern("match found named a -> Login b within 1 hour").match(model(beside=ps.events({"Login": [{"ts": START, "name": 1}]})))', "in events beside the model", "rename one of them"),
    Case('ps.react(model("rule r on found busy(host) do emit told(host)", data=past_changes, key="site", beside=ps.events({"A": df}, time="ts", key="site")))', "rules hear a model, and no other events", "one process", spark=True),
    Case('pattern("match found on n").match(model("query on(site) find site: Host", key="site"))', "the column that tells models apart", "another name"),
    Case(f'ps.react(model("{_CALM} rule r on calm do emit told(host)"))', "suppresses some of its matches", "no `suppress`"),
    Case('ps.repairs(model("query warm(host) find host: Host where moving_avg(host.cpu, 2) > 1 repair r on warm(host) cost 1 do set host.cpu = 1"), objectives="warm")', "looks back in time", "no moving averages"),
    Case('ps.repairs(model("repair r on busy(host) cost 1 do set host.cpu = 1", nodes="node Tagged (tags array<string>)"), objectives="busy")', "Tagged.tags is array", "single values"),
    Case('pattern("match change set Host.cpu a -> change set Host.name b within 1 hour").match(model())', "attributes of several types", "`change set Host.cpu`"),
    Case('pattern("pattern p match found busy b partition by host pattern q match p x -> p y within 1 hour partition by host").detect(model(data=past_changes, key="site"))', "runs in one process", "`match(…)`", spark=True),
    Case('model(data=past_changes, key="site").events("busy")', "DataFrame", "`detect(…)` of a pattern", spark=True),
    Case('ps.react(model("rule r on found busy(host) do emit told(host)", data=changes, key="site"), until=START)', "time passes with its watermark", "leave `until` out", spark=True),
    Case('ps.react(model("rule r on found busy(host) do emit told(host)", data=changes, key="site"), observation=Observation())', "An Observation is for one action", "`ps.progress(query)`", spark=True),
)  # fmt: skip
