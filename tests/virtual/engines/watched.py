# SPDX-License-Identifier: Apache-2.0
"""Runs a Python program where it can be seen which names it looks up: `python watched.py PROGRAM`.

The process moves into a network of its own, in which nothing can be reached and a name server on the loopback address
writes down every question and answers that there is no such name. All code of the process asks it, compiled code too,
as far as it finds its name server in /etc/resolv.conf. What is sent to an address that needs no name is not seen; it
reaches nobody.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

NOT_POSSIBLE = 77
PROBE = "probe.example"
_NEW_MOUNTS, _NEW_USERS, _NEW_NETWORK = 0x20000, 0x10000000, 0x40000000
_PRIVATE, _RECURSIVE, _BIND = 0x40000, 0x4000, 0x1000
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def _move_to_a_network_of_its_own() -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _call("unshare", _NEW_MOUNTS | _NEW_NETWORK)
    else:
        _call("unshare", _NEW_MOUNTS | _NEW_NETWORK | _NEW_USERS)
        for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{file}", "w") as opened:
                opened.write(text)
    _call("mount", None, b"/", None, _PRIVATE | _RECURSIVE, None)
    with tempfile.NamedTemporaryFile("w") as settings:
        settings.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        settings.flush()
        _call("mount", settings.name.encode(), b"/etc/resolv.conf", None, _BIND, None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))


def _name_in(question: bytes) -> str:
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode(errors="replace"))
        at += 1 + question[at]
    return ".".join(labels)


def _answer(server: socket.socket, asked: set[str]) -> None:
    while True:
        question, sender = server.recvfrom(4096)
        asked.add(_name_in(question))
        server.sendto(question[:2] + b"\x81\x83" + question[4:6] + bytes(6) + question[12:], sender)


def main(program: str) -> int:
    try:
        _move_to_a_network_of_its_own()
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", 53))
    except OSError as error:
        print(error)
        return NOT_POSSIBLE
    asked: set[str] = set()
    threading.Thread(target=_answer, args=(server, asked), daemon=True).start()
    done = subprocess.run([sys.executable, "-c", program], stdout=sys.stderr)
    subprocess.run([sys.executable, "-c", f"import socket; socket.getaddrinfo({PROBE!r}, 443)"], capture_output=True)
    print("\n".join(sorted(asked)))
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
