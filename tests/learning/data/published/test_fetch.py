import contextlib
import gzip
import hashlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetsim.errors import DataError
from fleetsim.learning.data.dataset_kind import SETS, RemoteFile, RemoteSet
from fleetsim.learning.data.published import fetch as module
from fleetsim.learning.data.published.fetch import cache_folder, fetch, find_files

CONTENT = bytes(range(256)) * 1000
PACKED = gzip.compress(CONTENT, mtime=0)
NAME = "things-idx1-ubyte.gz"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A web site of `files` and the names `asked` for. Of files in `cut` more bytes are announced
    than come; those in `drips` come in single bytes, ten a second."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/")
            answers.asked.append(name)
            if name not in answers.files:
                self.send_error(404)
                return
            body = answers.files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + 100 * (name in answers.cut)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the client has left
                for byte in body[: 100 * (name in answers.drips)]:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.1)
                self.wfile.write(b"" if name in answers.drips else body)

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}/"
    answers = SimpleNamespace(url=url, files={}, cut=set(), drips=set(), asked=[])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield answers
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Cache folder of the set "tiny"; nothing else on this machine is looked at."""
    monkeypatch.delenv("FLEETSIM_DATA", raising=False)
    monkeypatch.setattr(module, "cache_folder", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "tiny"


def tiny(*urls: str, extra: bool = False) -> RemoteSet:
    """One set, `tiny`, of one file at the given addresses, and perhaps an extra file."""
    packed, plain = (hashlib.sha256(content).hexdigest() for content in (PACKED, CONTENT))
    first = RemoteFile(NAME, len(PACKED), packed, plain, tuple(url + NAME for url in urls))
    more = replace(first, name="extra.gz", urls=tuple(url + "extra.gz" for url in urls))
    files = (first, replace(more, is_extra=True)) if extra else (first,)
    return RemoteSet("tiny", "a tiny set", files, "MIT", "nobody")


def fetched(known: RemoteSet, *, progress: bool = False) -> Path:
    return fetch("tiny", progress=progress, registry={"tiny": known})


def place(folder: Path, content: bytes = PACKED, name: str = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder


def test_a_good_file_lands_in_the_cache_with_a_bar_on_stderr_if_wanted(site, cache, capsys):
    site.files[NAME] = PACKED

    assert fetched(tiny(site.url)) == cache
    quiet = capsys.readouterr()
    assert {path: path.read_bytes() for path in cache.iterdir()} == {cache / NAME: PACKED}
    assert find_files(tiny(site.url)) == {NAME: cache / NAME}
    (cache / NAME).unlink()
    fetched(tiny(site.url), progress=True)
    loud = capsys.readouterr()

    size = f"{len(PACKED) / 1000:.1f}"
    assert (quiet.out, quiet.err, loud.out) == ("", "", "")
    assert NAME in loud.err
    assert f"{size}/{size} kB" in loud.err


def test_where_only_an_md5_is_published_it_is_what_is_compared(site, cache) -> None:
    md5 = hashlib.md5(PACKED, usedforsecurity=False).hexdigest()
    known = tiny(site.url)
    only_md5 = replace(known, files=(replace(known.files[0], sha256="", md5=md5),))
    site.files[NAME] = PACKED

    assert fetched(only_md5) == cache
    assert find_files(only_md5) == {NAME: cache / NAME}
    place(cache, b"damaged")
    with pytest.raises(DataError, match=rf"not the published file of tiny: expected MD5 {md5}, fo"):
        find_files(only_md5)


def test_only_what_the_cache_lacks_is_fetched_with_extra_files(site, cache) -> None:
    site.files |= {NAME: PACKED, "extra.gz": PACKED}
    place(cache, b"damaged")

    for _ in range(2):
        fetched(tiny(site.url, extra=True))

        assert site.asked == [NAME, "extra.gz"]
        assert {path.name: path.read_bytes() for path in cache.iterdir()} == site.files


SHA256 = hashlib.sha256(PACKED).hexdigest()
FAILURES: list[Any] = [
    ({}, f"{NAME} failed: HTTPError: 404.*; try again, or download it by hand into .*/cache/tiny$"),
    ({NAME: b"other"}, f"gave 5 bytes with SHA-256 .*, expected {len(PACKED)} bytes with {SHA256}"),
    ({NAME: PACKED, "cut": b""}, f"{NAME} failed: .*{len(PACKED)} bytes read, 100 more"),
    ({NAME: bytes(50_000_000)}, f"gave more than the {len(PACKED)} bytes of this file"),
    (None, r"127\.0\.0\.1:1/.* failed: ConnectionRefusedError"),
]


@pytest.mark.parametrize(("files", "message"), FAILURES)
def test_a_failed_download_is_told_with_its_address_and_leaves_nothing(site, cache, files, message):
    site.files |= files or {}
    site.cut |= {NAME} if "cut" in site.files else set()
    url = "http://127.0.0.1:1/" if files is None else site.url

    with pytest.raises(DataError, match=message) as caught:
        fetched(tiny(url))

    assert f"{url}{NAME} " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


def test_a_server_that_sends_a_byte_at_a_time_is_given_up(site, cache, monkeypatch):
    """Every byte arrives before the timeout of a silent server, and the whole file never would."""
    monkeypatch.setattr(module, "_GRACE_S", 0.2)
    monkeypatch.setattr(module, "_LEAST_BYTE_PER_S", 1e9)
    site.files[NAME] = PACKED
    site.drips.add(NAME)

    with pytest.raises(DataError, match="was given up: it was slower than"):
        fetched(tiny(site.url))

    assert list(cache.iterdir()) == []


def test_the_next_address_is_tried_when_one_fails(site, cache) -> None:
    site.files |= {f"bad/{NAME}": b"not it", f"good/{NAME}": PACKED}

    fetched(tiny(*(site.url + home for home in ("gone/", "bad/", "good/"))))

    assert site.asked == [f"gone/{NAME}", f"bad/{NAME}", f"good/{NAME}"]
    assert (cache / NAME).read_bytes() == PACKED


def test_a_named_folder_comes_before_fleetsim_data_and_that_before_the_cache_and_downloads(
    site, cache, tmp_path, monkeypatch
):
    local = place(tmp_path / "own" / "tiny")
    named = place(tmp_path / "named")
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path / "own"))

    assert fetched(tiny(site.url)) == local
    assert site.asked == []
    assert not cache.exists()
    place(cache)
    assert find_files(tiny(), named)[NAME].parent == named
    assert find_files(tiny())[NAME].parent == local
    (local / NAME).unlink()
    local = place(tmp_path / "own" / "data" / "tiny")
    assert find_files(tiny())[NAME].parent == local
    monkeypatch.setenv("FLEETSIM_DATA", "")
    assert find_files(tiny())[NAME].parent == cache


def test_a_folder_that_lacks_a_file_is_passed_over_but_not_a_named_one(
    cache, tmp_path, monkeypatch
):
    place(tmp_path / "own" / "tiny")
    place(cache)
    place(cache, name="extra.gz")
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path / "own"))
    known = tiny(extra=True)

    plain = find_files(known)
    whole = find_files(known, extras=["extra.gz"])

    with pytest.raises(DataError, match=rf"{tmp_path}/named is no folder; put .* leave `folder`"):
        find_files(known, tmp_path / "named")
    assert plain == {NAME: tmp_path / "own" / "tiny" / NAME}
    assert whole == {NAME: cache / NAME, "extra.gz": cache / "extra.gz"}


def test_a_missing_set_is_told_with_every_place_and_the_way_out(site, cache, tmp_path, monkeypatch):
    (tmp_path / "own" / "tiny").mkdir(parents=True)
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path / "own"))

    with pytest.raises(DataError) as caught:
        find_files(tiny(site.url))

    assert str(caught.value) == (
        f"data set tiny not found: {tmp_path}/own/tiny lacks {NAME}; {tmp_path}/own/data/tiny is "
        f"no folder; {cache} is no folder; run `fleetsim data fetch tiny`, or set FLEETSIM_DATA "
        "to a folder with tiny/"
    )
    assert site.asked == []


@pytest.mark.parametrize("name", [NAME, "things-idx1-ubyte"])
def test_a_local_file_packed_or_not_is_taken_by_its_checksum(tmp_path: Path, name: str) -> None:
    local = place(tmp_path / "own", PACKED if name == NAME else CONTENT, name)
    assert find_files(tiny(), local) == {NAME: local / name}
    place(local, b"changed", name)
    expected = hashlib.sha256(PACKED if name == NAME else CONTENT).hexdigest()
    actual = hashlib.sha256(b"changed").hexdigest()

    with pytest.raises(DataError) as caught:
        find_files(tiny(), local)

    assert str(caught.value) == (
        f"{local / name}: not the published file of tiny: expected SHA-256 {expected}, found "
        f"{actual}; remove it and run `fleetsim data fetch tiny`"
    )


def test_a_set_that_nobody_registered_is_told_with_those_that_are() -> None:
    message = r"'mnits' cannot be fetched; known are .*, fashion-mnist, mnist.* mean 'mnist'"
    with pytest.raises(DataError, match=message):
        fetch("mnits", progress=False, registry=SETS)


@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders are Linux's")
def test_the_cache_follows_xdg_cache_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert cache_folder("mnist") == tmp_path / "fleetsim" / "mnist"
