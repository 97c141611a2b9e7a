"""From a directory to a log, and what a log leaves on disk for that.

opening      a log made new, emptied, or recovered
recovery     what is really in the segments: scans, cuts, checks
checkpoint   the small files of a log, one by one
saved_state  what of a log is in them
flush        what a log still has to sync, for another thread to do
losses       replicas that may have lost acknowledged records, and know it
"""
