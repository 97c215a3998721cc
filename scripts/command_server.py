"""Server from which `fleetsim` commands are forked, as each would take seconds for its imports.

The program `fleetsim` that `served` writes hands its words, folder, streams and ignored signals to
the server, passes signals on but for SIGKILL, and ends as the command did. Where a variable of the
environment is not as it was when the server began, it becomes the real program.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HEAVY = (
    "fleetsim.simulate",
    "fleetsim.cli.run_study",
    "fleetsim.report.pages.comparison",
    "fleetsim.report.pages.run_page",
    "fleetsim.studies.page.study_page",
)
"""Imports of most commands."""
PROGRAM = """\
#!{python} -IS
import json, os, signal, socket, sys
before = {before!r}
if any(os.environ.get(each) != value for each, value in before.items()) or any(
    each not in before and each not in ("OLDPWD", "PWD", "SHLVL", "_") for each in os.environ
):
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
passed = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ignored = [each for each in passed if signal.getsignal(each) == signal.SIG_IGN]
asked = json.dumps([sys.argv[1:], os.getcwd(), ignored])
socket.send_fds(link, [asked.encode()], [0, 1, 2])
link.shutdown(socket.SHUT_WR)
answers = link.makefile()
process = int(answers.readline())
for each in set(passed).difference(ignored):
    signal.signal(each, lambda number, frame: os.kill(process, number))
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def preload() -> None:
    """Import what most commands do."""
    for name in HEAVY:
        importlib.import_module(name)


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """Put the program into a folder, which is to be the first of PATH, and serve it meanwhile."""
    for key in {"COLUMNS", "LINES"} - os.environ.keys():
        os.unsetenv(key)  # readline has set it, unseen by Python
    of_shells = {"OLDPWD", "PWD", "SHLVL", "_"}
    kept = {key: value for key, value in os.environ.items() if key not in of_shells}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        program = folder / "fleetsim"
        program.write_text(
            PROGRAM.format(
                python=sys.executable,
                before=kept,
                real=str(Path(sys.executable).with_name("fleetsim")),
                address=listener.getsockname(),
            )
        )
        program.chmod(0o700)
        command = [sys.executable, "-m", "scripts.command_server", str(listener.fileno())]
        with subprocess.Popen(
            command,
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        ):
            yield  # then its stdin is closed, with which it ends


def serve(listener: socket.socket) -> None:
    """Serve until stdin ends; returns in the process of a command, which is ready to begin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, which is the caller's
    waiting: set[int] = set()
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        waiting -= {each for each in waiting if os.waitpid(each, os.WNOHANG)[0]}
        link, _ = listener.accept()
        if not (process := os.fork()):
            listener.close()
            begin(link)
            return
        waiting.add(process)
        link.close()
    for each in waiting:
        os.waitpid(each, 0)
    sys.exit()


def begin(link: socket.socket) -> None:
    """Become the process of the command that a program asks for; the parent waits for its end."""
    asked, streams, _, _ = socket.recv_fds(link, 1 << 20, 3)
    while more := link.recv(1 << 20):
        asked += more
    words, folder, ignored = json.loads(asked)
    if process := os.fork():
        link.sendall(f"{process}\n".encode())
        _, status = os.waitpid(process, 0)
        link.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    link.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if signal.SIGINT not in ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in {signal.SIGTERM, signal.SIGHUP}.intersection(ignored):
        signal.signal(each, signal.SIG_IGN)
    os.chdir(folder)
    sys.path[0] = str(Path(sys.executable).parent)
    sys.argv = ["fleetsim", *words]


if __name__ == "__main__":
    preload()
    gc.freeze()  # else a collection in a command would copy the memory of all
    serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        importlib.import_module("fleetsim.cli").main()
    except SystemExit as end:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(int(end.code or 0))  # spares the removal of every module
