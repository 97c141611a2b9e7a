"""The metadata of the cluster: one controller for each broker, and the ways to ask them.

controller          `controller@N`: a member of the metadata's Raft group; the active one carries operations out
operations          the operations that wait: planned, written in batches, answered
replay              the committed log applied to this broker's copy of the metadata
bootstrap           the snapshot, the log and the first voters at a start, where some may be lost
registrar           this broker's registration, and the topics of the cluster file
metadata_snapshots  snapshots: when, by which thread, and the cut of the log behind them
metadata_waits      waits for metadata to be applied, and the read index of the active controller
leader_waits        waits for the leaders of new partitions
client              the one way from a client's request to the controllers, with retries and the barrier
admin               administration for the harness, from any thread
description         the cluster and its quorum as JSON
internal_topics     the topics of the coordinators, and how they are created
"""
