"""Commands that read the files of a cluster, without a broker.

dump_log          dump-log: segments, indexes and small files, checked
recover_metadata  recover-metadata: a stopped cluster that lost its majority
"""
