"""Newline JSON: one object per line in, one per line out.

connection    the actor: a slot for each request, and the operation that answers it
call          one request, and its answer
operations    the operations that the controllers carry out
handlers      the other operations, a module for each subject
at_leader     a question to the leader of a partition
lanes         the order of batches to one partition, and their producer ids
fetch_gate    how many fetches of a connection are under way
reading       the records of a leader's answer that a client may get, in slices
topic_search  topics by name, also those of which this broker has not heard yet
membership    a connection as a member of a consumer group
group_reader  the records that a member's polls are answered with
"""
