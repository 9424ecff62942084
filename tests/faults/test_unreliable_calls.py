"""Calls that are lost, repeated, late and out of order, and an owner that dies in between.

A network in memory between clients and one partition: requests and answers are dropped, doubled and
delivered in any order, the owner's process is killed or its power fails. Each client does what the
real one does: one request at a time, repeated under its id until it is answered. Then the log
holds, for each client, what it sent, in its order, once, and no answer ever contradicts another.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from neverforget.actors.messages import SYNC_DISK, Append, AppendedReply, Failure, Page, WindowReply
from neverforget.actors.partition import Partition, PartitionSpec
from neverforget.storage.digests import session_scope
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import BodyField
from neverforget.storage.record import decode_records, encode_turn
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Killed
from tests.faults.appender import Asked

STORE_ID, SESSION = "store", "chat"
SCOPE = session_scope((), SESSION)
SPEC = PartitionSpec(
    directory=str(ROOT / "p0"), store_id=STORE_ID, partition=0, role="application",
    segment_bytes=16384,
)  # fmt: skip


@dataclass
class Client:
    producer: int
    goal: int
    number: int = 1
    told: dict[int, list[int]] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.number > self.goal

    def request(self) -> Append:
        keyed = self.number % 3 == 0
        records = b"".join(
            bytes(
                encode_turn(
                    role="user",
                    content=f"{self.producer}:{self.number}:{turn}".ljust(40 + self.number % 200),
                    timestamp_us=1,
                    token_count=1,
                    producer=self.producer,
                    producer_seq=self.number,
                    key_scope=SCOPE,
                    key=f"{self.producer}/{self.number}/{turn}" if keyed else None,
                )
            )
            for turn in range(1 + self.number % 2)
        )
        return Append(
            self.number, (), SESSION, "a", self.producer, self.number, SYNC_DISK, None, records
        )

    def hear(self, number: int, reply: object) -> None:
        if isinstance(reply, Failure):
            assert reply.code in ("unavailable", "poisoned", "overloaded"), reply
            return
        assert isinstance(reply, AppendedReply)
        result, count = reply.result, 1 + number % 2
        existing = {i: next(decode_records(r))[0].sequence_id for i, r in result.existing}
        fresh = iter(range(result.first_seq, result.first_seq + count))
        seqs = [existing[i] if i in existing else next(fresh) for i in range(count)]
        assert self.told.setdefault(number, seqs) == seqs, "two answers to one request differ"
        if number == self.number:
            self.number += 1


class Network:
    """``requests`` and ``answers`` are under way; any of them may be lost, doubled, or wait."""

    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)
        self.fs = CrashFileSystem(seed)
        options = RegionOptions(segment_bytes=16384, first_segment_bytes=16384)
        Region.create(self.fs, ROOT / "p0", store_id=STORE_ID, partition=0, options=options)
        self.clients = [Client(producer, 12) for producer in (101, 102, 103)]
        self.requests: list[tuple[Client, Append]] = []
        self.answers: list[tuple[Client, int, object]] = []
        self.partition = self.opened(self.fs)

    def opened(self, fs: FileSystem) -> Partition:
        partition = Partition(SPEC, fs=fs, lock=False)
        partition.open()
        assert partition.state == "serving", partition.reason
        return partition

    def step(self) -> None:
        match self.choices.randrange(12):
            case 0 | 1 | 2 | 3:
                waiting = [client for client in self.clients if not client.done]
                if waiting:
                    client = self.choices.choice(waiting)
                    self.requests.append((client, client.request()))
            case 4 | 5 | 6 | 7:
                self.deliver_requests()
            case 8 | 9 | 10:
                self.deliver_answers()
            case 11:
                if self.choices.random() < 0.3:
                    self.die()

    def deliver_requests(self) -> None:
        self.choices.shuffle(self.requests)
        group = [self.requests.pop() for _ in range(min(4, len(self.requests)))]
        asked = []
        for client, request in group:
            fate = self.choices.random()
            if fate < 0.2:
                continue  # lost
            asked.append((client, Asked(request)))
            if fate > 0.8:
                self.requests.append((client, request))  # and again, some time
        try:
            self.partition.run([one for _, one in asked])
        except Killed:
            self.reboot()
            return
        for client, one in asked:
            number = one.request.id
            self.answers.append((client, number, one.answer))

    def deliver_answers(self) -> None:
        self.choices.shuffle(self.answers)
        for _ in range(min(3, len(self.answers))):
            client, number, answer = self.answers.pop()
            if self.choices.random() > 0.25:
                client.hear(number, answer)

    def die(self) -> None:
        """Now, or within the next few calls to the disk."""
        self.fs.kill_at(len(self.fs.calls) + self.choices.randrange(6))

    def reboot(self) -> None:
        # The threads of the dead process meet the dead disk, and end.
        self.partition.close()
        power = self.choices.random() < 0.5
        self.fs = self.fs.power_cut() if power else self.fs.process_death()
        self.partition = self.opened(self.fs)

    def texts(self) -> list[str]:
        asked = Asked(Page(1, (), SESSION, None, None, False, 10_000, True))
        self.partition.run([asked])
        assert isinstance(asked.answer, WindowReply), asked.answer
        return [
            body[BodyField.CONTENT].strip()
            for _, body in decode_records(asked.answer.window.records)
            if body is not None
        ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(n, marks=pytest.mark.long) for n in range(30, 60))]
)
def test_every_client_finds_its_requests_once_and_in_order(seed: int) -> None:
    network = Network(seed)
    for _ in range(20_000):
        network.step()
        if all(client.done for client in network.clients):
            break
    network.fs.kill_at(1 << 62)
    # What still wanders about arrives late, and changes nothing.
    while network.requests:
        network.deliver_requests()
    texts = network.texts()
    for client in network.clients:
        assert client.done
        mine = [text for text in texts if text.startswith(f"{client.producer}:")]
        sent = [
            f"{client.producer}:{number}:{turn}"
            for number in range(1, client.goal + 1)
            for turn in range(1 + number % 2)
        ]
        assert mine == sent
        for number, seqs in client.told.items():
            for turn, seq in enumerate(seqs):
                assert texts[seq] == f"{client.producer}:{number}:{turn}"
    assert len(texts) == len(set(texts))
    network.partition.close()
