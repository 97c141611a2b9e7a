"""A stand-in for Debian's `nc -N HOST PORT`: sends what it reads, ends its side, and prints what comes."""

from __future__ import annotations

import socket
import sys


def main(arguments: list[str]) -> None:
    if len(arguments) != 3 or arguments[0] != "-N":
        sys.exit("nc: without -N, Debian's nc would wait for ever; type nc -N HOST PORT")
    with socket.create_connection((arguments[1], int(arguments[2])), timeout=30) as client:
        client.sendall(sys.stdin.buffer.read())
        client.shutdown(socket.SHUT_WR)
        while data := client.recv(65_536):
            sys.stdout.buffer.write(data)


if __name__ == "__main__":
    main(sys.argv[1:])
