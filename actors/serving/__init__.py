"""The clients of a broker: one port, two dialects, one actor for each connection.

listener        accepts connections, and feeds each one's actor from its socket
doorkeeper      how many connections a broker takes, also from one address
request_memory  how many bytes of unanswered requests all connections hold together
frame_cutter    where Kafka's requests begin and end in what was read
connection      the actor, as far as both dialects share it
answers         the answers of one connection, in the order of their requests
outlet          the bytes and slices of files that wait for the socket
context         what all connections of a broker share
fetch_sessions  Kafka's incremental fetch sessions
question        a question to another actor, repeated until it is answered
at_coordinator  such a question to a coordinator
seldom          log lines about clients, at a bounded rate
kafka           Kafka's binary protocol
json            newline JSON
"""
