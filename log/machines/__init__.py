"""State machines: what a Raft log means. Pure: the same records in the same order give the same state everywhere.

metadata      the cluster: brokers, topics, placement, configs
group         consumer groups
transaction   transactions
coordination  how the state of a coordinator is asked, and what it gives back
deadlines     what is due next, of very many things
names         regular expressions over names
"""
