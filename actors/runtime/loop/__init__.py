"""The scheduler on trio.

trio_loop   the tasks that keep a scheduler going
readers     sockets read without waking a task for each message
garbage     garbage in cycles, collected a little at a time
trio_hooks  what the runtime takes from trio.lowlevel and from the inside of trio
"""
