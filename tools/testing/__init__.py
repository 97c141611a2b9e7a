"""A pytest plugin: a replicated cluster in a fixture.

plugin       the fixtures, the options, and what a failing test's report shows; imports no part of a broker
options      what an argument, the command line and the ini file say
kafka        what a test gets: topics of its own, faults, the cluster
local        a cluster of this process
running      a running cluster of any kind
shared       the cluster that all tests of a session share: which process starts it, and its end
server       `python -m tools.testing.server`: the process of that cluster
control      requests to that process, over a unix socket
connections  which clients of this process are connected to a cluster
"""
