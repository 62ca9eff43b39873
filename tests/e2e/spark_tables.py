"""Reads tables with PySpark: spark_tables.py ORDERS ANSWERS. Runs in build/spark, apart from the tests, and imports nothing of them.

ORDERS is JSON: `directory` with tables, their names in `tables`, and `queries`. ANSWERS gets `version`, `schemas`, the `rows` of each table and the
`answers` to the queries.
"""

import json
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

WITH_START = ("events", "steps", "collectives")


def start(scratch):
    """Spark in this process and one of Java, on two cores, which listens on the loopback only and shows no page."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.local.dir": scratch / "local",
        "spark.sql.warehouse.dir": scratch / "warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # A run called 2026 is no number.
        # The tables are small: what takes time is compiling and scheduling.
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[2]").appName("strobe")
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()


def plain(value):
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return float(value) if isinstance(value, Decimal) else value


def rows(frame):
    return [[plain(value) for value in row] for row in frame.collect()]


def main():
    orders = json.loads(Path(sys.argv[1]).read_text())
    spark = start(Path(sys.argv[2]).parent)
    spark.sparkContext.setLogLevel("ERROR")
    found = {"version": spark.version, "schemas": {}, "rows": {}, "answers": []}
    for table in orders["tables"]:
        frame = spark.read.parquet(f"{orders['directory']}/{table}")
        found["schemas"][table] = dict(frame.dtypes)
        found["rows"][table] = rows(frame)
        start_time = ", timestamp_micros(start_ns div 1000) AS start" if table in WITH_START else ""
        frame.createOrReplaceTempView(f"{table}_files")
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {table} AS SELECT *{start_time} FROM {table}_files")
    found["answers"] = [rows(spark.sql(query)) for query in orders["queries"]]
    spark.stop()
    Path(sys.argv[2]).write_text(json.dumps(found))


main()
