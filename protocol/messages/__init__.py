"""The messages of Kafka, a module for each API: its request, its response, and what they are made of."""
