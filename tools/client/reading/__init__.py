"""How a consumer reads its partitions.

positions      partitions and positions, and the records that are decoded but not returned yet
fetcher        fetches from all leaders, ahead of the user
fetch_session  a fetch session with one broker (KIP-227)
fetched        the batches of one partition from one Fetch response
subscriber     a group member on the user's thread: callbacks, positions, commits
committer      commits offsets and fetches committed ones
"""
