"""The scheduler on trio.

low_level  what the runtime takes from trio.lowlevel and from the inside of trio
trio_loop  the tasks that keep a scheduler going
readers    sockets read without waking a task for each message
outbox     what goes out on a socket
garbage    garbage in cycles, collected a little at a time
"""
