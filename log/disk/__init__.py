"""What a log asks of a disk.

filesystem         the interface, and the real disk
handles            open files and maps, up to a limit
reserve            room that is kept for what must be written when the disk is full
slice              a run of whole batches in a file, ready for sendfile
memory_filesystem  a disk in memory that loses what was not synced and fails on purpose
memory_nodes       its files and directories
"""
