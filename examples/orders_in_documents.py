"""Orders and payments as XML documents: tree patterns, and the orders that are not paid within an hour.

Run it where perseid and pyspark are installed: python examples/orders_in_documents.py
(Spark starts its workers with `python3`; in an environment that is not activated, set PYSPARK_PYTHON to its Python.)

Two shops send orders, with different prefixes for the same namespace. The bank sends payments. One document is truncated.
"""

from __future__ import annotations

from pyspark.sql import Observation, SparkSession

import perseid as ps

SHOP = "http://example.org/shop"
DOCUMENTS = [
    (
        "2026-03-01 09:00:00",
        "Orders",
        f"""<orders xmlns="{SHOP}">
          <order no="17"><customer>ann</customer><item>pen</item><gift/><item>ink</item><total>120</total></order>
          <order no="18"><customer>bob</customer><item>lamp</item><total>240.00</total></order>
        </orders>""",
    ),
    (
        "2026-03-01 09:05:00",
        "Orders",
        f"""<s:orders xmlns:s="{SHOP}">
          <s:order no="19"><s:customer>eve</s:customer><s:item>desk</s:item><s:gift/><s:total>310</s:total></s:order>
          <s:order no="20"><s:customer>dan</s:customer><s:item>cup</s:item><s:total>9</s:total></s:order>
        </s:orders>""",
    ),
    ("2026-03-01 09:20:00", "Payments", '<payments><payment order="18">240</payment></payments>'),
    ("2026-03-01 09:30:00", "Payments", '<payments>\n  <payment order="19">310</paym'),
]
GIFTS = ps.xml.tree_patterns("//shop:order->order[/@no->no](/shop:item->item:/shop:gift)")
"""Items to wrap: the next sibling is a ``gift`` element."""
UNPAID = ps.pattern("""
    pattern unpaid
    match   Orders << //shop:order->order[/@no->no][/shop:customer->customer][/shop:total->total > 100] >> o
            -> not Payments << //payment->payment[/@order->no] >> for 1 hour
    partition by no
    return  o.customer, cast(o.total as double) as total
""")


def main() -> None:
    """Print gifts, unpaid orders, and the number of documents that cannot be read."""
    spark = SparkSession.builder.appName("orders").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    frame = spark.createDataFrame(DOCUMENTS, "at string, kind string, xml string")
    frame = frame.selectExpr("to_timestamp(at) as ts", "kind", "xml")
    documents = ps.documents(frame, body="xml", time="ts", type="kind", namespaces={"shop": SHOP})

    for row in GIFTS.match(documents).orderBy("ts", "place").collect():
        if row.error is None:
            print(f"order {row.no[0]}: wrap the {', '.join(row.item)}")
        else:
            print(f"{row.kind} of {row.ts} cannot be read: {row.error.what}, line {row.error.line}")

    counters = Observation()
    unpaid = UNPAID.match(
        documents, observation=counters
    ).collect()  # a sort would run the query twice, and count twice
    for row in sorted(unpaid, key=lambda row: row.no):
        print(f"order {row.no}: {row.customer} has not paid {row.total} by {row.end}")
    print(f"unpaid: {counters.get['matches']}, documents that cannot be read: {counters.get['bad']}")


if __name__ == "__main__":
    main()
