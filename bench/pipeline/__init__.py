"""Jobs from Kafka to Kafka, measured: how many events, how late an answer is, and whether anything grows."""
