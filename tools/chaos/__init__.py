"""Does a Kafka cluster keep its promises while things go wrong? Real clients, real brokers, a history, a verdict.

    python -m tools.chaos --minutes 10                              three processes of our own, with faults
    python -m tools.chaos --bootstrap localhost:9092                any Kafka cluster, unharmed
    python -m tools.chaos --bootstrap localhost:9092 --cluster      one of ours on this machine: brokers are killed

Time is cut into rounds, each with topics of its own. A round is recorded, read in full when everything has healed, and
checked; then it is forgotten, so a run may last as long as it likes.

rounds        topics, clients, faults, the end of a round, and its outcome
client        a thread with a Kafka client, and what errors mean
producers     plain and idempotent producers
transactors   transactional producers, which commit, abort, dawdle and are replaced
transformers  from topic to topic, exactly once
readers       assigned consumers, members of consumer groups, a reader of offsets
final_read    reads every partition in full at the end
exactly_once  every input has one output
librdkafka    bugs of librdkafka, detected or worked around
subscription  a member of a consumer group, record by record
faults        brokers that are killed, stopped and cut off
brokers       brokers of ours that were started outside of this process
recorder      the history, in a file of tools.checker's kind, and counts
table         the present counts, in a terminal or a pipe
"""
