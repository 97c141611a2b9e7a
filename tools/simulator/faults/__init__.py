"""What goes wrong, and how it heals.

schedule        picks faults at random, by name
plan            what all faults share: a generator, counts, what is planned
processes       clean stops, kills, losses of power, emptied disks, pauses
links           slow, cut, silent and clogged links, isolated brokers
leaders         leadership transferred, or usurped while the leader is isolated
disks           failed writes and syncs, lost indexes, old checkpoints, clocks
losses          which losses a cluster survives
lasting         full and slow disks, calendars that jump by years, settings that change
directed        faults that wait for a moment that chance alone reaches too seldom
stale_messages  a message of a deposed leader that arrives late
"""
