"""Thousands of reports as one Parquet dataset of causes: ingest, report, SQL."""
