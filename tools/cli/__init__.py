"""The command `barnabas`, which is `python -m tools.cli` in a checkout.

root            finds the command that is asked for, and runs it
commands        the table of all commands
reference       the page docs/reference/commands.md
completion      completion: a script for bash or zsh
administration  commands that look at a running cluster and change it
operations      commands that run a cluster and look after it
records         commands that send and print records
disk            commands that read the files of a cluster
output          what the commands share: options, connections, tables, JSON
shapes          what each command prints with --json
tables          tables that fit into a terminal
"""
