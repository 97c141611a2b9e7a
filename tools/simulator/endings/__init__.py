"""How some seeds end.

broken_minority  a minority of the brokers stays broken until every client has finished
blackout         every machine loses its power, although not everything was synced
"""
