"""Environments and settings of the peers."""

import pytest

from benchmarks import environments
from benchmarks.contestants import CONTESTANTS, Peer
from benchmarks.works import WORKS


def test_a_peer_whose_python_is_missing_is_not_installed_and_says_so(tmp_path):
    peer = Peer("one", "one==1.0", ("one",), interpreter="python0.0t")

    with pytest.raises(environments.InstallError, match=r"needs python0\.0t, which is not on the"):
        environments.ensure(peer, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("who", CONTESTANTS, ids=lambda who: who.name)
def test_peers_are_tried_in_both_layouts_of_images_and_on_one_thread_of_texts(who):
    tried = {work.name: [each.label for each in who.settings(work)] for work in WORKS}
    text = [""] if who.uses_all_cores else ["", "1 thread"]

    assert tried["w2"] == tried["w4"] == ["", "NHWC"]
    assert tried["w7"] == tried["w8"] == text
    assert tried["w1"] == tried["w3"] == [""]
