"""State machines: what a Raft log means. Pure: the same records in the same order give the same state everywhere.

metadata          what the cluster is: brokers, topics, who keeps what, configs
metadata_records  the records of its log
placement         who shall keep what
plans             what an operation writes into the metadata log, or why it may not
topic_configs     the settings of a topic
coordination      how the state of a coordinator is asked; deadlines: what of it is due next
name_pattern      regular expressions over names, in bounded time; name_syntax reads them
group             consumer groups
transaction       transactions
unclean           why no replica is elected without a majority
"""
