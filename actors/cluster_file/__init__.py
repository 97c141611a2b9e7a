"""actors/cluster_file."""
