"""What a consumer reads.

positions      its partitions, where it stands in each, and what was fetched
fetcher        fetches from every leader, ahead of the reader
fetch_session  a fetch session with one broker (KIP-227)
fetched        what a fetch brought of one partition
subscriber     its part in its group on the user's thread: callbacks, positions, commits
committer      commits offsets, and asks for committed ones
"""
