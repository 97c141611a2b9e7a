"""What must hold after every event, looked at from outside of the actors.

invariants      replicas: their logs, watermarks, leaders and members
votes           votes: durable before they are sent or acted upon
cluster         metadata and leadership, as each broker knows them
producer_model  which producers a partition has to know, from its log alone
turns           how much one turn of an actor does
"""
