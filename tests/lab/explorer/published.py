"""The published specification of the protocol's ancestor, all 18 actions, as a model for our own search.

Facts: oxia.md §1.2 to §1.4. It knows neither disks nor crashes nor the limbo, and appends nothing at an election, so
its states are not ours; but a search of it must find exactly as many as TLC does (oxia.md §1.7). Names are the
specification's: terms are our epochs, coordinators our operators.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

Id = tuple[int, int]  # (term, offset): compares as the specification's ids do
NOTHING: Id = (0, 0)
QUORUM = 2  # of three nodes


class Entry(NamedTuple):
    id: Id
    value: int


class Cursor(NamedTuple):
    is_attached: bool
    last_pushed: Id
    last_confirmed: Id


class Node(NamedTuple):
    status: str = "NOT_MEMBER"
    term: int = 0
    leader: int | None = None
    log: tuple[Entry, ...] = ()
    commit: Id = NOTHING
    head: Id = NOTHING
    cursors: tuple[Cursor | None, ...] = (None, None, None)


class Metadata(NamedTuple):
    status: str | None = None
    term: int = 0
    leader: int | None = None


class Coordinator(NamedTuple):
    is_running: bool = False
    version: int = 0
    metadata: Metadata | None = None
    phase: str | None = None
    leader: int | None = None
    responses: frozenset["Message"] = frozenset()


class Message(NamedTuple):
    """Whatever a message of one kind does not have is None."""

    kind: str
    to: int
    sender: int
    term: int
    id: Id | None = None  # a head, or an acknowledged entry
    entry: Entry | None = None
    commit: Id | None = None
    heads: tuple[Id | None, ...] | None = None
    follower: int | None = None
    is_ok: bool = True


class State(NamedTuple):
    version: int
    metadata: Metadata
    nodes: tuple[Node, ...]
    coordinators: tuple[Coordinator, ...]
    confirmed: tuple[tuple[int, bool], ...]  # value -> whether its write was confirmed
    sent: frozenset[Message]  # ever: the same record is never sent twice
    pending: frozenset[Message]
    stops: int = 0


Found = Iterator[tuple[str, State]]


class Published:
    """The model, for three nodes."""

    def __init__(self, *, coordinators: int = 1, values: int = 1, terms: int = 1, stops: int = 0) -> None:
        self.coordinators, self.values, self.terms, self.stops = coordinators, values, terms, stops

    def starts(self) -> Iterable[State]:
        empty: frozenset[Message] = frozenset()
        return [State(0, Metadata(), (Node(),) * 3, (Coordinator(),) * self.coordinators, (), empty, empty)]

    def steps(self, state: State) -> list[tuple[str, State]]:
        found: list[tuple[str, State]] = []
        for index in range(self.coordinators):
            found += self._coordinator_alone(state, index)
        for index in range(3):
            found += self._leader_alone(state, index)
        for message in state.pending:
            found += self._receive(state, message)
        return found

    # coordinators

    def _coordinator_alone(self, state: State, index: int) -> Found:
        me = state.coordinators[index]
        if not me.is_running:
            started = Coordinator(is_running=True, version=state.version, metadata=state.metadata)
            yield "CoordinatorStarts", coordinate(state, index, started)
            return
        if state.stops < self.stops:
            lost = {m for m in state.pending if m.kind.startswith("BECOME_LEADER") and index in coordinator_of(m)}
            stopped = coordinate(state, index, Coordinator())
            yield "CoordinatorStops", stopped._replace(stops=state.stops + 1, pending=state.pending - lost)
        if me.version == state.version and state.metadata.term < self.terms:
            metadata = Metadata("ELECTION", state.metadata.term + 1)
            fences = [Message("NEW_TERM", node, index, metadata.term) for node in range(3)]
            electing = me._replace(version=state.version + 1, metadata=metadata, phase="FENCING", leader=None)
            after = coordinate(state, index, electing._replace(responses=frozenset()))
            after = after._replace(version=state.version + 1, metadata=metadata)
            yield from send("CoordinatorStartsElection", after, fences)

    def _fenced(self, state: State, message: Message) -> Found:
        index, me = message.to, state.coordinators[message.to]
        is_mine = me.is_running and me.metadata is not None and message.term == me.metadata.term
        if not is_mine or me.metadata is None:
            return
        responses = me.responses | {message}
        me = me._replace(responses=responses)
        if me.metadata is not None and me.metadata.status == "ELECTION" and me.phase == "FENCING":
            if len(responses) < QUORUM:
                yield "CoordinatorHandlesPreQuorumFencingResponse", coordinate(state, index, me)
            else:
                yield from self._choose(state, index, me)
        elif me.phase == "LEADER_ELECTED":
            assert me.leader is not None
            add = Message("ADD_FOLLOWER", me.leader, index, message.term, message.id, follower=message.sender)
            yield from send("CoordinatorHandlesPostQuorumFencingResponse", coordinate(state, index, me), [add])

    def _choose(self, state: State, index: int, me: Coordinator) -> Found:
        best = max((m.id or NOTHING) for m in me.responses)
        winner = min(m.sender for m in me.responses if m.id == best)
        heads: list[Id | None] = [None] * 3
        for response in me.responses:
            if response.sender != winner:
                heads[response.sender] = response.id
        assert me.metadata is not None
        lead = Message("BECOME_LEADER", winner, index, me.metadata.term, heads=tuple(heads))
        after = coordinate(state, index, me._replace(phase="NOTIFY_LEADER", leader=winner))
        yield from send("CoordinatorHandlesQuorumFencingResponse", after, [lead])

    def _leading(self, state: State, message: Message) -> Found:
        index, me = message.to, state.coordinators[message.to]
        is_awaited = me.is_running and me.phase == "NOTIFY_LEADER" and me.version == state.version
        if is_awaited and me.metadata is not None and me.metadata.term == message.term:
            metadata = Metadata("STEADY_STATE", message.term, message.sender)
            elected = me._replace(version=state.version + 1, metadata=metadata, phase="LEADER_ELECTED")
            after = coordinate(state, index, elected)
            yield "CoordinatorHandlesBecomeLeaderResponse", after._replace(version=elected.version, metadata=metadata)

    # leaders

    def _leader_alone(self, state: State, index: int) -> Found:
        node = state.nodes[index]
        if node.status != "LEADER":
            return
        written = {value for value, _ in state.confirmed}
        for value in range(self.values):
            if value not in written:
                entry = Entry((node.term, node.head[1] + 1), value)
                after = place(state, index, node._replace(log=(*node.log, entry), head=entry.id))
                yield "Write", after._replace(confirmed=tuple(sorted([*state.confirmed, (value, False)])))
        behind = [
            (follower, cursor)
            for follower, cursor in enumerate(node.cursors)
            if cursor is not None and cursor.is_attached and cursor.last_pushed < node.head
        ]
        if behind:
            cursors, messages = list(node.cursors), []
            for follower, cursor in behind:
                entry = min(entry for entry in node.log if entry.id > cursor.last_pushed)
                messages.append(Message("APPEND", follower, index, node.term, entry=entry, commit=node.commit))
                cursors[follower] = cursor._replace(last_pushed=entry.id)
            after = place(state, index, node._replace(cursors=tuple(cursors)))
            yield from send("LeaderSendsEntriesToFollowers", after, messages)

    def _confirmed(self, state: State, message: Message) -> Found:
        index, node = message.to, state.nodes[message.to]
        if node.status != "LEADER" or node.term != message.term:
            return
        if not message.is_ok:
            fenced = node._replace(status="FENCED", cursors=(None,) * 3)
            yield "LeaderHandlesEntryRejection", place(state, index, fenced)
            return
        cursor = node.cursors[message.sender]
        if cursor is None or not cursor.is_attached or message.id is None:
            return
        cursors = list(node.cursors)
        cursors[message.sender] = cursor._replace(last_confirmed=message.id)
        node = node._replace(cursors=tuple(cursors))
        confirmed = dict(state.confirmed)
        if message.id[0] == node.term and all(
            sum(each is not None and each.is_attached and each.last_confirmed >= entry.id for each in cursors) >= 1
            for entry in node.log
            if entry.id <= message.id
        ):
            node = node._replace(commit=max(node.commit, message.id))
            (value,) = [entry.value for entry in node.log if entry.id == message.id]
            confirmed[value] = True
        after = place(state, index, node)
        yield "LeaderHandlesEntryConfirm", after._replace(confirmed=tuple(sorted(confirmed.items())))

    # nodes

    def _receive(self, state: State, message: Message) -> Found:
        if message.kind in ("APPEND", "ACK") and not is_first(state, message):
            return
        after = state._replace(pending=state.pending - {message})
        handlers = {
            "NEW_TERM": self._fence, "NEW_TERM_RESPONSE": self._fenced, "BECOME_LEADER": self._lead,
            "BECOME_LEADER_RESPONSE": self._leading, "ADD_FOLLOWER": self._add_follower, "TRUNCATE": self._truncate,
            "TRUNCATE_RESPONSE": self._truncated, "APPEND": self._follow, "ACK": self._confirmed,
        }  # fmt: skip
        yield from handlers[message.kind](after, message)

    def _fence(self, state: State, message: Message) -> Found:
        node = state.nodes[message.to]
        if node.term < message.term:
            fenced = node._replace(status="FENCED", term=message.term, cursors=(None,) * 3)
            answer = Message("NEW_TERM_RESPONSE", message.sender, message.to, message.term, node.head)
            yield from send("NodeHandlesFencingRequest", place(state, message.to, fenced), [answer])

    def _lead(self, state: State, message: Message) -> Found:
        index, node = message.to, state.nodes[message.to]
        if node.term != message.term or message.heads is None:
            return
        cursors: list[Cursor | None] = [None] * 3
        messages = [Message("BECOME_LEADER_RESPONSE", message.sender, index, message.term)]
        for follower, head in enumerate(message.heads):
            if head is not None:
                cursors[follower], truncate = cursor_for(index, node, follower, head)
                messages += truncate
        leader = node._replace(status="LEADER", leader=index, cursors=tuple(cursors))
        yield from send("NodeHandlesBecomeLeaderRequest", place(state, index, leader), messages)

    def _add_follower(self, state: State, message: Message) -> Found:
        index, node = message.to, state.nodes[message.to]
        follower = message.follower
        assert follower is not None
        assert message.id is not None
        if node.term == message.term and node.status == "LEADER" and node.cursors[follower] is None:
            cursors = list(node.cursors)
            cursors[follower], truncate = cursor_for(index, node, follower, message.id)
            after = place(state, index, node._replace(cursors=tuple(cursors)))
            yield from send("LeaderHandlesAddFollowerRequest", after, truncate)

    def _truncate(self, state: State, message: Message) -> Found:
        index, node = message.to, state.nodes[message.to]
        assert message.id is not None
        if node.status == "FENCED" and node.term == message.term:
            log = tuple(entry for entry in node.log if entry.id <= message.id)
            head = max([entry.id for entry in log], default=NOTHING)
            follower = node._replace(status="FOLLOWER", leader=message.sender, log=log, head=head)
            answer = Message("TRUNCATE_RESPONSE", message.sender, index, message.term, head)
            yield from send("NodeHandlesTruncateRequest", place(state, index, follower), [answer])

    def _truncated(self, state: State, message: Message) -> Found:
        index, node = message.to, state.nodes[message.to]
        assert message.id is not None
        if node.status == "LEADER" and node.term == message.term:
            cursors = list(node.cursors)
            cursors[message.sender] = Cursor(True, message.id, message.id)
            yield "LeaderHandlesTruncateResponse", place(state, index, node._replace(cursors=tuple(cursors)))

    def _follow(self, state: State, message: Message) -> Found:
        index, node, entry = message.to, state.nodes[message.to], message.entry
        assert entry is not None
        assert message.commit is not None
        if node.term > message.term:
            refusal = Message("ACK", message.sender, index, message.term, entry.id, is_ok=False)
            yield from send("FollowerRejectsEntry", state, [refusal])
        elif node.status in ("FOLLOWER", "FENCED"):
            ack = Message("ACK", message.sender, index, node.term, entry.id)
            log = tuple(sorted({*node.log, entry}))
            follower = Node("FOLLOWER", message.term, message.sender, log, message.commit, entry.id, node.cursors)
            yield from send("FollowerConfirmsEntry", place(state, index, follower), [ack])


def place(state: State, index: int, node: Node) -> State:
    return state._replace(nodes=(*state.nodes[:index], node, *state.nodes[index + 1 :]))


def coordinate(state: State, index: int, me: Coordinator) -> State:
    others = state.coordinators
    return state._replace(coordinators=(*others[:index], me, *others[index + 1 :]))


def send(action: str, state: State, messages: list[Message]) -> Found:
    """Sending a message a second time is impossible: the whole action is."""
    if not state.sent.intersection(messages):
        yield action, state._replace(sent=state.sent.union(messages), pending=state.pending.union(messages))


def coordinator_of(message: Message) -> tuple[int, ...]:
    return (message.sender,) if message.kind == "BECOME_LEADER" else (message.to,)


def is_first(state: State, message: Message) -> bool:
    """Entries and acknowledgements of a pair come in the order of their ids."""
    lane = [m for m in state.pending if (m.kind, m.to, m.sender) == (message.kind, message.to, message.sender)]
    return id_in(message) == min(map(id_in, lane))


def id_in(message: Message) -> Id:
    found = message.entry.id if message.entry is not None else message.id
    assert found is not None
    return found


def cursor_for(index: int, node: Node, follower: int, head: Id) -> tuple[Cursor, list[Message]]:
    """Return how a follower with this head begins: at its head, or by a truncation."""
    if head[0] == node.head[0] and head[1] <= node.head[1]:
        return Cursor(True, head, head), []
    to = max([entry.id for entry in node.log if entry.id[0] <= head[0]], default=NOTHING)
    return Cursor(False, NOTHING, NOTHING), [Message("TRUNCATE", follower, index, node.term, to)]
