"""Rules that derive a deployment from a cyber-physical system, and quick fixes if the system stays invalid.

Run it where perseid is installed: python examples/cyber_physical.py

Hosts and applications change. Rules derive a deployment from them, with a trace from each element to its copy in the deployment. The
rules suspend the deployment while a host has more available CPU than total CPU. One or two errors are tolerated, because a change
often has several parts; three consecutive errors of one host start a search for repairs.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import perseid as ps

CPS = """
model cps
node HostInstance (available_cpu bigint, total_cpu bigint, ram bigint)
node ApplicationInstance
edge allocated_to ApplicationInstance -> HostInstance one

node DeploymentHost (cpu bigint)
node DeploymentApplication
edge deployed_on DeploymentApplication -> DeploymentHost one

edge host_trace HostInstance -> DeploymentHost one
edge application_trace ApplicationInstance -> DeploymentApplication one

-- errors of the system

query overcommitted(host)
find  host: HostInstance
where host.available_cpu > host.total_cpu

-- differences between system and deployment; no matches while the system is invalid

query new_host(host)
find  host: HostInstance, not host -host_trace-> _, not overcommitted(_)
query changed_host(host, copy)
find  host -host_trace-> copy, not overcommitted(_)
where host.total_cpu <> copy.cpu
query gone_host(copy)
find  copy: DeploymentHost, not _ -host_trace-> copy, not overcommitted(_)

query new_application(application)
find  application: ApplicationInstance, not application -application_trace-> _, not overcommitted(_)
query gone_application(copy)
find  copy: DeploymentApplication, not _ -application_trace-> copy, not overcommitted(_)

query to_deploy(application, host)
find  instance -allocated_to-> place, place -host_trace-> host, instance -application_trace-> application,
      not application -deployed_on-> host, not overcommitted(_)
query to_withdraw(application, host)
find  instance -application_trace-> application, application -deployed_on-> host,
      not (instance -allocated_to-> place, place -host_trace-> host), not overcommitted(_)

rule make_host on found new_host(host)
do   create copy: DeploymentHost named 'deployed ' || host, set copy.cpu = host.total_cpu, link host -host_trace-> copy
rule change_host on found changed_host(host, copy)
do   set copy.cpu = host.total_cpu
rule drop_host on found gone_host(copy)
do   delete copy
rule make_application on found new_application(application)
do   create copy: DeploymentApplication named 'deployed ' || application, link application -application_trace-> copy
rule drop_application on found gone_application(copy)
do   delete copy
rule withdraw on found to_withdraw(application, host) priority 1
do   unlink application -deployed_on-> host
rule deploy on found to_deploy(application, host) priority 2
do   link application -deployed_on-> host

-- three consecutive errors of one host; if the host becomes valid in between, the count restarts

pattern toleration
match (found overcommitted | updated overcommitted){3}
selection immediate
within forever
partition by host

rule limit_reached on toleration
do   emit search(host)

repair lower_available on overcommitted(host) cost 1
do   set host.available_cpu = host.total_cpu
repair raise_total on overcommitted(host) cost 1
do   set host.total_cpu = host.available_cpu
"""
BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)
Rows = list[dict[str, Any]]


def main() -> None:
    cps = ps.graph.metamodel(CPS)
    rows: Rows = []

    def now(minute: int, what: str, changes: Iterable[dict[str, Any]]) -> ps.graph.Reaction:
        """Add the changes of one time and print their effects."""
        moment = BEGIN + timedelta(minutes=minute)
        rows.extend({"ts": moment, **change} for change in changes)
        done = ps.graph.react(ps.graph.model(rows, cps))
        print_changes(moment, what, done)
        return done

    now(0, "two hosts, two applications", [*host("h1", 4, 8), *host("h2", 2, 16), *runs("a", "h1"), *runs("b", "h2")])
    now(1, "h2 offers 20 of its 16", [put("h2", "available_cpu", 20)])
    now(2, "h2 has 24: what looked wrong was half of a change", [put("h2", "total_cpu", 24)])
    now(3, "h1 offers 10 of its 8", [put("h1", "available_cpu", 10)])
    now(4, "a third application comes to h1", runs("c", "h1"))
    done = now(5, "h1 gets more memory, and is still wrong", [put("h1", "ram", 64)])
    fixes = ps.graph.find_repairs(done, objectives="overcommitted")
    print(f"\n{fixes}\n")
    rows.extend(fixes[0].rows(BEGIN + timedelta(minutes=6)))
    done = now(6, "the first fix is chosen", [])
    print("\nthe deployment:", ", ".join(deployed(done)))
    print("valid:", not done.current[()]["overcommitted"])


def print_changes(moment: datetime, what: str, done: ps.graph.Reaction) -> None:
    """Print the changes of one time, and whether the deployment is suspended."""
    changes = [change for change in done.changes if change["ts"] == moment]
    errors = done.current[()]["overcommitted"]
    print(f"{moment:%H:%M} {what}")
    if changes:
        print(f"      rules that changed the deployment: {', '.join(dict.fromkeys(c['rule'] for c in changes))}")
    if errors:
        print(f"      {errors[0][0]} is invalid: the deployment is suspended")
    for row in done.emitted["search"]:
        if row["ts"] == moment:
            print(f"      three consecutive errors of {row['host']}: a search for repairs starts")


def deployed(done: ps.graph.Reaction) -> list[str]:
    """The applications and their hosts in the deployment."""
    edges = done.live[()].graph.edges("deployed_on")
    return sorted(f"{application} on {place}" for application, place in edges)


def host(name: str, available: int, total: int) -> Rows:
    created = {"change": "create", "element": name, "kind": "HostInstance"}
    return [created, put(name, "available_cpu", available), put(name, "total_cpu", total)]


def runs(name: str, on: str) -> Rows:
    return [
        {"change": "create", "element": name, "kind": "ApplicationInstance"},
        {"change": "link", "element": name, "kind": "allocated_to", "target": on},
    ]


def put(name: str, attribute: str, value: int) -> dict[str, Any]:
    return {"change": "set", "element": name, "attribute": attribute, "value": value}


if __name__ == "__main__":
    main()
