"""tools/chaos/librdkafka."""
