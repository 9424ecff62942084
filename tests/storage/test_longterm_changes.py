"""Changed memories whose words are not in yet, against a list of them."""

from __future__ import annotations

import gc
import random

import numpy as np

from neverforget.storage.longterm_changes import Change, Changes


def test_random_changes_leave_in_the_order_in_which_they_came(rng: random.Random) -> None:
    changes, model, texts = Changes(), list[Change](), list[str | None]()
    since = 0
    for _ in range(300):
        count = rng.choice((0, 1, 1, 3, 200))
        since += count
        new = [Change(rng.randrange(50), since + n, rng.randrange(4), since) for n in range(count)]
        hidden = {n: rng.choice(("secret", "told", None)) for n in range(count) if n % 90 == 7}
        rows, positions, statuses, _ = zip(*new) if new else ((), (), (), ())
        columns = (np.array(rows, int), np.array(positions, np.uint64), np.array(statuses, int))
        changes.extend(*columns, since, list(hidden.items()))
        model += new
        texts += [hidden.get(n, "") for n in range(count)]
        for _ in range(min(len(model), rng.choice((0, 5, 250)))):
            assert changes.first() == model.pop(0)
            changes.drop_first()
            texts.pop(0)
        assert len(changes) == len(model)
        start = rng.randint(0, len(model))
        assert [Change(*each) for each in changes.columns(start).tolist()] == model[start:]
        told = [(change.row, text) for change, text in zip(model, texts) if text != ""]
        assert changes.hidden(len(told)) == (None if None in dict.fromkeys(texts) else told)
        assert not told or changes.hidden(len(told) - 1) is None


def test_a_hundred_thousand_of_them_are_no_work_for_the_collector() -> None:
    changes, rows = Changes(), np.arange(1_000)
    gc.collect()
    before = len(gc.get_objects())
    for since in range(100):
        changes.extend(rows, rows.astype(np.uint64), rows % 3, since, [])
    gc.collect()
    assert len(changes) == 100_000 and len(gc.get_objects()) - before < 100
