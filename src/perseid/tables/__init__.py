"""User data as columns: lists of dicts, pandas, Arrow, Parquet and text files."""
