"""State of the process around code of the user's own, which is restored after each call.

A process that the code forks ends where it returns to fleetsim. Functions that end or replace a
process at once (`os._exit`, `os.abort`, `os.execv`) raise instead: nobody could tell such an end
from a run that is done. Changes of the environment last until the end of the run
(`turns.Environment`): libraries read some variables long after they were set.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

_PACKAGE = str(Path(__file__).parents[1])
_STREAMS = ("stdin", "stdout", "stderr")
_ENDINGS = ("_exit", "abort", "execv", "execve")
"""Functions of `os` that end the process at once; the other `exec` functions call these."""
_HOOKS = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"))
_SIGNALS = tuple(
    getattr(signal, f"SIG{name}")
    for name in ["ALRM", "CHLD", "HUP", "INT", "PIPE", "PROF", "TERM", "USR1", "USR2", "VTALRM"]
    if hasattr(signal, f"SIG{name}")  # fewer on Windows
)
_TIMERS = tuple(
    getattr(signal, name)
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
    if hasattr(signal, name)  # not on Windows
)


class _Endings:
    """Context, of any threads, in which functions that end this process raise SystemExit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_within = 0
        self._originals = {name: getattr(os, name) for name in _ENDINGS}
        self._raising = {name: self._raises(name) for name in _ENDINGS}

    def __enter__(self) -> None:
        with self._lock:
            self._num_within += 1
            if self._num_within == 1:
                self._originals = {name: getattr(os, name) for name in _ENDINGS}
                vars(os).update(self._raising)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._num_within -= 1
            if self._num_within == 0:
                vars(os).update(self._originals)

    def after_fork(self) -> None:
        """Restore them in the new process, whose other threads, and their locks, are gone."""
        self._lock = threading.Lock()
        if self._num_within > 0:
            self._num_within = 0
            vars(os).update(self._originals)
            _end_on_return()

    def _raises(self, name: str) -> Callable[..., Any]:
        def raises(*arguments: Any, **named: Any) -> Any:
            # A module may keep it by `from os import _exit`, and call it later.
            if self._num_within == 0:
                return self._originals[name](*arguments, **named)
            raise SystemExit(f"os.{name} ends the process")

        return raises


endings_raise = _Endings()
if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=endings_raise.after_fork)


def _end_on_return() -> None:
    """End this process, just forked by the code, where it returns to a call of fleetsim's.

    The parent goes on there. A network that forks in each of n passes would leave 2^n processes.
    """
    calls: set[FrameType] = set()
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") == "multiprocessing.popen_fork":
            return  # it never returns there, and would be slower
        if frame.f_code.co_filename.startswith(_PACKAGE):
            calls.add(frame)
        frame = frame.f_back

    def end(frame: FrameType, event: str, _: object) -> None:
        if frame in calls or (event == "return" and frame.f_back in calls):
            os._exit(0)

    sys.setprofile(end)


Handler = Callable[[int, FrameType | None], Any] | int | None


class Surroundings(NamedTuple):
    """State of the process that a call may not change for good."""

    process: int
    folder: str | None
    """Current folder; None: it has been removed."""
    path: tuple[str, ...]
    """Folders in which modules are found; what the code adds stays."""
    descriptors: tuple[int, ...]
    """Those of the standard streams that are open."""
    handlers: dict[signal.Signals, Handler]
    """Empty outside of the main thread, which alone may set them."""
    timers: dict[int, tuple[float, float]]
    streams: dict[str, Any]
    float_faults: dict[str, Any] | None
    """NumPy's treatment of them; None: it is not imported."""
    torch: tuple[str, str, bool]
    """Default device and number type, and whether gradients are recorded."""
    hooks: tuple[Any, ...]
    """Functions that report exceptions; trackers replace them, and such stay."""

    @classmethod
    def now(cls) -> Surroundings:
        """Return the present state."""
        is_main = threading.current_thread() is threading.main_thread()
        numpy = sys.modules.get("numpy")
        return cls(
            process=os.getpid(),
            folder=_current_folder(),
            path=tuple(sys.path),
            descriptors=tuple(filter(_is_open, range(len(_STREAMS)))),
            handlers={number: signal.getsignal(number) for number in _SIGNALS} if is_main else {},
            timers={timer: signal.getitimer(timer) for timer in _TIMERS},
            streams={name: getattr(sys, name) for name in _STREAMS},
            float_faults=None if numpy is None else dict(numpy.geterr()),
            torch=_torch_defaults(),
            hooks=tuple(getattr(module, name, None) for module, name in _HOOKS),
        )

    def restore(
        self, what: str, error: Callable[[str], Exception], *, with_signals: bool = True
    ) -> None:
        """Restore everything; a forked process ends here, if not before."""
        if os.getpid() != self.process:
            os._exit(0)
        now = Surroundings.now()
        if with_signals:
            for timer, before in self.timers.items():
                if before[0] == 0.0 and now.timers[timer][0] != 0.0:
                    signal.setitimer(timer, 0.0)
            for number, handler in self.handlers.items():
                if now.handlers[number] is not handler and handler is not None:
                    signal.signal(number, handler)
        if self.float_faults is not None and now.float_faults != self.float_faults:
            sys.modules["numpy"].seterr(**self.float_faults)
        if now.torch != self.torch:
            _set_torch_defaults(*self.torch)
        for (module, name), hook in zip(_HOOKS, self.hooks, strict=True):
            if not callable(getattr(module, name, None)):  # no thread could be started
                setattr(module, name, hook)
        if not {*self.path} <= {*now.path}:
            sys.path[:] = self.path
        for name, stream in self.streams.items():
            setattr(sys, name, stream)
        if self.folder is not None and now.folder != self.folder:
            try:
                os.chdir(self.folder)
            except OSError as fault:
                message = f"leaves the folder {self.folder}, which is no longer there"
                raise error(f"{what} {message} ({fault.strerror}); let it stay") from fault
        closed = {*self.descriptors} - {*now.descriptors}
        for _ in closed:
            # Otherwise the next file that is opened has its number, and gets what is printed.
            os.open(os.devnull, os.O_RDWR)
        if closed:
            message = "closes the descriptor of a standard stream, which is not its own"
            raise error(f"{what} {message}; leave it open")
        for name, stream in self.streams.items():
            if name != "stdin" and getattr(stream, "closed", False):
                setattr(sys, name, _open_again(name))
                message = "closes sys.stdout or sys.stderr, which are not its own; leave them open"
                raise error(f"{what} {message}")


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _open_again(name: str) -> Any:
    """Return the stream that the interpreter began with, or another one if that is closed, too.

    In a command, where prints go to stderr, that is what code closes as `sys.stdout`. Without it
    nobody could read the message. Closing it leaves its descriptor open.
    """
    first = getattr(sys, f"__{name}__")
    if not getattr(first, "closed", False):
        return first
    try:
        return open(
            _STREAMS.index(name), "w", buffering=1, closefd=False, errors="backslashreplace"
        )
    except OSError:  # the descriptor is closed
        return None


def _torch_defaults() -> tuple[str, str, bool]:
    """Return torch's defaults of this thread; its own where it is not imported, or not wholly."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "default_generator"):
        return "cpu", "torch.float32", True
    device, number_type = torch.get_default_device(), torch.get_default_dtype()
    return str(device), str(number_type), torch.is_grad_enabled()


def _set_torch_defaults(device: str, number_type: str, records_gradients: bool) -> None:
    torch = sys.modules["torch"]
    # With a default device, the CPU too, every operation takes longer.
    torch.set_default_device(None if device == "cpu" else device)
    torch.set_default_dtype(getattr(torch, number_type.removeprefix("torch.")))
    torch.set_grad_enabled(records_gradients)


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - a path object takes longer
    except FileNotFoundError:
        return None
