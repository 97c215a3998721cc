"""The folder of a run, and its end on record: done, interrupted or failed."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from fleetsim.contracts import ClientColumns, EndedRun, State, StopReason
from fleetsim.errors import DataError
from fleetsim.host.termination import Terminated
from fleetsim.record import checkpoint
from fleetsim.record.failures import failures, read_tables
from fleetsim.record.manifest import Manifest, PlatformRecord, read_manifest, write_manifest
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.resumption import with_platform
from fleetsim.record.run_folder import choose_folder, locked
from fleetsim.record.saved_run import Run, open_run
from fleetsim.run_settings import RunFolderSettings
from fleetsim.trackers.following import Following


@contextmanager
def held_folder(
    settings: RunFolderSettings, manifest: Manifest, platform: PlatformRecord, *, scenario: str
) -> Iterator[tuple[Path, Manifest]]:
    """Lock a run's folder within the block; yield it and its manifest, which may be `done`.

    An interrupt gets a note that names the folder, unless it has one.
    """
    folder, chosen = choose_folder(
        settings.out,
        manifest,
        scenario=scenario,
        resume=settings.resume,
        on_note=settings.on_note or (lambda line: None),
    )
    if chosen.status == "done":
        yield folder, chosen
        return
    try:
        with locked(folder):
            # Another process may have completed the run in the meantime.
            chosen = read_manifest(folder)
            if chosen.status != "done":
                chosen = with_platform(
                    folder, chosen, platform, allow_other=settings.allow_other_platform
                )
            yield folder, chosen
    except KeyboardInterrupt as interrupt:
        if not getattr(interrupt, "__notes__", []):
            interrupt.add_note(f"the run in {folder} is unchanged")
        raise


@contextmanager
def restoring(folder: Path, state: State | None) -> Iterator[None]:
    """Restore a state within the block."""
    try:
        yield
    except (KeyError, IndexError, ValueError, TypeError, OverflowError) as fault:
        if state is None:
            raise
        message = f"lacks {fault}" if isinstance(fault, KeyError) else str(fault)
        saved = folder / checkpoint.FOLDER
        raise DataError(
            f"{saved}: holds no state of this run ({message}); delete {saved} and run afresh"
        ) from fault


class _OnClock(Protocol):
    @property
    def now_s(self) -> float: ...
    @property
    def num_rounds(self) -> int: ...
    def clients(self) -> Iterator[ClientColumns]: ...


def run_recorded(
    run: Callable[[], StopReason],
    server: _OnClock,
    recorder: RunRecorder,
    following: Following,
    folder: Path,
    manifest: Manifest,
    *,
    selector: str,
    at_end: Callable[[], dict[str, object]] = dict,
) -> Run:
    """Run to the end, and write the manifest, also after an interrupt or a fault.

    `at_end` returns further fields of the manifest of a run that is done.
    """
    # Written when nothing else can refuse: a run that cannot continue keeps its manifest.
    begun = {"status": "running", "stop_text": None, "table_digests": None}
    manifest = manifest.model_copy(update=begun)
    write_manifest(folder, manifest)
    began_s = time.perf_counter()

    def current(**changes: object) -> Manifest:
        return manifest.model_copy(
            update={
                "rounds": server.num_rounds,
                "virtual_s": server.now_s,
                "host_s": manifest.host_s + time.perf_counter() - began_s,
                "table_digests": recorder.table_digests,
                **changes,
            }
        )

    try:
        with _frozen_objects():
            reason = run()
        digest = recorder.finish(server.clients())
    except KeyboardInterrupt as interrupt:
        recorder.flush()
        message = "ended by SIGTERM" if isinstance(interrupt, Terminated) else "interrupted"
        write_manifest(folder, current(status="interrupted", stop_text=message))
        following.cut_short(EndedRun(folder, "interrupted", message, None), interrupt)
        interrupt.add_note(f"{server.num_rounds} round(s) are recorded in {folder}")
        raise
    except BaseException as fault:
        recorder.flush()
        message = str(fault) or type(fault).__name__
        write_manifest(folder, current(status="failed", stop_text=message))
        following.cut_short(EndedRun(folder, "failed", message, None), fault)
        raise
    result = failures(
        *read_tables(folder),
        baseline=manifest.baseline,
        stop_rule=reason.rule,
        stop_text=reason.text,
        selector=selector,
    )
    write_manifest(
        folder,
        current(
            status="done",
            stop_rule=reason.rule,
            stop_text=reason.text,
            digest=digest,
            failures=tuple(result),
            **at_end(),
        ),
    )
    following.end(EndedRun(folder, "done", reason.text, digest))
    return open_run(folder)


@contextmanager
def _frozen_objects() -> Iterator[None]:
    """Exempt present objects from garbage collection: scanning torch took as long as a round."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
