"""What a test did wrong, or what the cluster did not do in time."""


class HarnessError(Exception):
    """The harness was used wrongly, or the cluster did not do what was asked in time."""
