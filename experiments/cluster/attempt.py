"""Which of several starts of a launch this is, where torchrun starts ranks again."""

import time
from uuid import uuid4

from torch.distributed.distributed_c10d import PrefixStore, Store

_PAUSE = 0.02  # seconds between two looks


def own_part(store: Store, rank: int, size: int) -> Store:
    """The part of a launch's store that the ranks of this start have for themselves, once all have come.

    torchrun --max-restarts starts ranks again on the store that the ones before them wrote to, whose addresses nobody
    answers at any more; nothing in the environment tells all machines which start it is. So rank 0 names it, and
    answers each of the others with a word that no earlier rank can have said.
    """
    word = uuid4().hex
    if rank == 0:
        store.set("start", word)
        for other in range(1, size):
            store.set(f"{word} answers {other}", store.get(f"{word} asked by {other}").decode())
        return PrefixStore(word, store)
    while True:
        start = store.get("start").decode()
        asked, answered = f"{start} asked by {rank}", f"{start} answers {rank}"
        store.set(asked, word)
        if store.check([answered]) and store.get(answered).decode() == word:
            return PrefixStore(start, store)
        time.sleep(_PAUSE)
