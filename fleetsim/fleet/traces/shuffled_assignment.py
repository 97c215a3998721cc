"""Which record of a trace each client lives through: cards of an endless, shuffled deck."""

from __future__ import annotations

import numpy as np

from fleetsim import rng
from fleetsim.contracts import IntArray

_MIN_HAND = 4096


def assign_shuffled(num_cards: int, num_clients: int, *, seed: int, purpose: str) -> IntArray:
    """Card of every client [N].

    Client i gets the i-th card of an endless deck: all cards in random order, then all cards in
    another random order, and so on. So every card is dealt about equally often, and client i's
    does not depend on the number of clients.

    Args:
        num_cards: cards of one deck.
        num_clients: number of clients N.
        seed: the scenario's seed.
        purpose: what the cards are; each purpose has streams of its own.
    """
    # Decks are shuffled by the hand to make few streams.
    decks = -(-_MIN_HAND // num_cards)
    deck = np.broadcast_to(np.arange(num_cards, dtype=np.int64), (decks, num_cards))
    hands = [
        rng.stream(seed, purpose, hand).permuted(deck, axis=1).ravel()
        for hand in range(-(-num_clients // deck.size))
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *hands])[:num_clients]
