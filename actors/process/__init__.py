"""From a cluster file to running processes.

launcher           starts the brokers, links them, restarts one that dies, and stops all of them
hosts              a broker as an OS process, or as a task of this one
formation          `formation`: the voters with which the cluster began
disks              whether the disks of an existing cluster are mounted
preflight          checks of the machine: directories, host, ports
running_file       `running.json`: which cluster runs in a data directory
metadata_recovery  a new generation of the metadata's Raft group, from the disks that are left
service_manager    what systemd is told: READY=1, STOPPING=1
logs               log lines on stderr
errors             why a cluster is not started
"""
