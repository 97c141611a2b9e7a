"""Links: ordered, at-most-once connections of two nodes.

link              what two nodes say to each other, without saying how it travels
frames            bytes to frames and back, without I/O
codec             messages as bytes: compiled for each message class, no pickle
read_buffer       the bytes of a stream, in buffers that readers may keep
socket_transport  a link over an AF_UNIX stream
peering           which node dials which, and when it tries again
"""
