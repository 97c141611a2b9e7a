"""The partitions of a broker: one actor per replica, the parts of a replica, and the actors that look after them.

hosting           `partitions@N`: makes and ends the replicas that the metadata wants on this broker
leaderless        warns of partitions that have had no leader for a while
cleaner           `cleaner@N`: has one replica after the other delete and compact
replica           `replica/orders-3.ID@N`: the actor; appends, reads, and their answers when leadership changes
actions           what the parts of a replica may have the actor do: answer later, send, ask, be woken
authority         whether this replica may answer, show records, append
admissions        batches that take long to check
transaction_gate  transactional batches that wait for the answer of their coordinator
append_queue      appends with acks=all that wait for more replicas
reads             fetches, watches, and look-ups of offsets and epochs
time_lookups      look-ups by time that take long
log_starts        DeleteRecords: the log start of the leader and then of the followers
cleaning          retention and compaction of one log
"""
