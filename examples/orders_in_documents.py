"""Orders and payments as XML documents: what is in them, and which orders nobody paid within an hour.

Run it where perseid and pyspark are installed: python examples/orders_in_documents.py
(Spark starts its workers with `python3`; in an environment that is not activated, set PYSPARK_PYTHON to its Python.)

Two shops send their orders, each with a prefix of its own for the same namespace; the bank sends payments. One document was cut
off on its way.
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
GIFTS = ps.trees("//shop:order->order[/@no->no](/shop:item->item:/shop:gift)")
"""Items to be wrapped: a gift sign stands right behind them."""
UNPAID = ps.pattern("""
    pattern unpaid
    match   Orders << //shop:order->order[/@no->no][/shop:customer->customer][/shop:total->total > 100] >> o
            -> not Payments << //payment->payment[/@order->no] >> for 1 hour
    partition by no
    return  o.customer, cast(o.total as double) as total
""")


def main() -> None:
    """Look into the documents, then over time, then at those that cannot be read."""
    spark = SparkSession.builder.appName("orders").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    frame = spark.createDataFrame(DOCUMENTS, "at string, kind string, xml string")
    frame = frame.selectExpr("to_timestamp(at) as ts", "kind", "xml")
    documents = ps.documents(frame, body="xml", time="ts", type="kind", namespaces={"shop": SHOP})

    for row in GIFTS.detect(documents).orderBy("ts", "place").collect():
        if row.error is None:
            print(f"order {row.no[0]}: wrap the {', '.join(row.item)}")
        else:
            print(f"{row.kind} of {row.ts} cannot be read: {row.error.what}, line {row.error.line}")

    seen = Observation()
    unpaid = UNPAID.detect(documents, observation=seen).collect()  # a sort behind it would count everything twice
    for row in sorted(unpaid, key=lambda row: row.no):
        print(f"order {row.no}: {row.customer} has not paid {row.total} by {row.end}")
    print(f"unpaid: {seen.get['matches']}, documents that cannot be read: {seen.get['bad']}")


if __name__ == "__main__":
    main()
