"""Account takeovers in a Spark DataFrame: two logins from different addresses, then large transfers, within ten minutes.

Run it where perseid and pyspark are installed: python examples/takeover_on_spark.py
(Spark starts its workers with `python3`; in an environment that is not activated, set PYSPARK_PYTHON to its Python.)
"""

from __future__ import annotations

from pyspark.sql import Observation, SparkSession

import perseid as ps

TAKEOVER = """
pattern takeover
match   Login a -> Login b -> not Logout -> Transfer+ t
where   b.ip <> a.ip and sum(t.amount) > 10000
within  10 minutes
partition by user
return  a.ip as from_ip, b.ip as to_ip, count(t) as transfers, sum(t.amount) as amount
"""

EVENTS = """
values
  ('2024-05-01 10:00:00', 'Login',    'ann', '10.0.0.1', null),
  ('2024-05-01 10:02:00', 'Login',    'ann', '93.5.7.2', null),
  ('2024-05-01 10:03:00', 'Transfer', 'ann', null, 4000),
  ('2024-05-01 10:04:00', 'Transfer', 'ann', null, 9000),
  ('2024-05-01 10:00:00', 'Login',    'bob', '10.0.0.7', null),
  ('2024-05-01 10:01:00', 'Login',    'bob', '10.0.0.8', null),
  ('2024-05-01 10:02:00', 'Logout',   'bob', null, null),
  ('2024-05-01 10:03:00', 'Transfer', 'bob', null, 20000)
  as events(ts, type, user, ip, amount)
"""


def main() -> None:
    """Print the matches and the counters, and the reason why bob has no match."""
    spark = SparkSession.builder.getOrCreate()
    frame = spark.sql(f"select to_timestamp(ts) as ts, type, user, ip, amount from {EVENTS}")
    events = ps.events(frame, time="ts", type="type")
    takeover = ps.pattern(TAKEOVER)

    counters = Observation()
    takeover.match(events, observation=counters).select(
        "user", "from_ip", "to_ip", "transfers", "amount", "start", "end"
    ).show(truncate=False)
    print(counters.get)

    print(takeover.why_not(events, key="bob"))


if __name__ == "__main__":
    main()
