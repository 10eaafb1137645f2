"""Events, effects and messages in one line each, in the words of quorum-log.md."""

from collections.abc import Iterable, Sequence

from penstock.kernel.effects import (
    Effect,
    Event,
    Persist,
    Persisted,
    Received,
    Reply,
    Requested,
    SaveState,
    Send,
    Stop,
    TimerFired,
    TrimLog,
    TruncateLog,
)
from penstock.quorum.core.operator import Reconfigure
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.answers import Answers
from penstock.quorum.records.effects import (
    Append,
    Apply,
    KeepLost,
    RestoreSnapshot,
    Serve,
    TakeSnapshot,
    WriteSnapshot,
)
from penstock.quorum.records.entry import Barrier, Confirm, Entry, Rollback, Txn
from penstock.quorum.records.member import Member
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    AddFollowerResponse,
    BecomeLeaderRequest,
    Change,
    CommitReconfigurationRequest,
    FenceResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    PrepareReconfigurationRequest,
    Refusal,
    Request,
    Response,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from penstock.quorum.records.metadata import Metadata, MetadataWritten, WriteMetadata
from penstock.quorum.records.resolution import Resolution, Resolve


def names(ensemble: Iterable[Member]) -> str:
    return "".join(sorted(member.node for member in ensemble)) or "nobody"


def entry(one: Entry) -> str:
    match one:
        case Txn(ops=ops, is_sync=is_sync):
            return f"{'TXN' if is_sync else 'async TXN'} {ops.decode()}"
        case Barrier():
            return "BARRIER"
        case Confirm(upto=upto):
            return f"CONFIRM({upto})"
        case Rollback(first=first):
            return f"ROLLBACK({first})"


def entries(first: int, many: Sequence[Entry]) -> str:
    return ", ".join(f"{each.epoch}/{offset} {entry(each)}" for offset, each in enumerate(many, first)) or "nothing"


def change(one: Change) -> str:
    old = one.old.node if one.old is not None else ""
    new = one.new.node if one.new is not None else ""
    return f"{one.op.value} {old}{'→' if old and new else ''}{new}"


def metadata(one: Metadata) -> str:
    under_way = one.reconfiguration
    doing = f", {change(under_way.change)} in {under_way.phase.name}" if under_way is not None else ""
    leader = f", leader {one.leader.node}" if one.leader is not None else ""
    return f"epoch {one.epoch} {one.status.name}, ensemble {names(one.ensemble)}{leader}{doing}"


def message(one: Request | Response) -> str:
    kind = type(one).__name__
    name = kind.removesuffix("Request") if isinstance(one, Request) else kind
    details = request_details(one) if isinstance(one, Request) else response_details(one)
    return f"{name}({one.epoch}){': ' + details if details else ''}"


def request_details(one: Request) -> str:
    match one:
        case BecomeLeaderRequest(ensemble=ensemble, heads=heads):
            known = ", ".join(f"{member.node} at {head}" for member, head in heads) or "no follower yet"
            return f"ensemble {names(ensemble)}, {known}"
        case AddFollowerRequest(follower=follower, head=head):
            return f"{follower.node} at {head}"
        case TruncateRequest(to=to):
            return f"to {to}"
        case SnapshotRequest(snapshot=snapshot, position=position, is_last=is_last):
            return f"{snapshot.head} from byte {position}{', last part' if is_last else ''}"
        case AddEntryRequest(previous=previous, entries=new):
            return f"behind {previous} {entries(previous.offset + 1, new)}"
        case PrepareReconfigurationRequest(change=what) | CommitReconfigurationRequest(change=what):
            return change(what)
        case _:
            return ""


def response_details(one: Response) -> str:
    match one:
        case FenceResponse(head=head) | TruncateResponse(head=head):
            return f"head {head}"
        case AddFollowerResponse(follower=follower):
            return follower.node
        case SnapshotResponse(head=None, position=position):
            return f"go on from byte {position}"
        case SnapshotResponse(head=head):
            return f"installed, head {head}"
        case AddEntryResponse(head=head, is_behind=is_behind):
            return f"durable up to {head}{', cannot append' if is_behind else ''}"
        case HeartbeatResponse(role=role, followers=followers):
            return f"{role.value}, followed by {names(followers)}" if followers else role.value
        case Refusal(request=request, reason=reason):
            return f"of {request.removesuffix('Request')}: {reason.value}"
        case _:
            return ""


def event(one: Event) -> str | None:
    """What happened; None for what only follows from something told before."""
    match one:
        case Received(sender, said):
            is_boring = isinstance(said, HeartbeatRequest | HeartbeatResponse)
            return None if is_boring else f"hears {sender}: {message(said)}"
        case Append(requests):
            return "is asked to append " + ", ".join(each.ops.decode() for each in requests)
        case TimerFired(name):
            return None if name == "tick" else f"hears its {name} timer"
        case Requested(request, body):
            return f"is asked, as request {request}: {question(body)}"
        case Persisted(lsn):
            return f"is durable up to {lsn}"
        case MetadataWritten(is_written=False):
            return "loses a race"
        case _:
            return None


def effect(one: Effect) -> str | None:
    """What is done about it; None for timers and the like."""
    match one:
        case Send(to, said):
            is_boring = isinstance(said, HeartbeatRequest | HeartbeatResponse)
            return None if is_boring else f"to {to}: {message(said)}"
        case WriteMetadata(new):
            return f"writes {metadata(new)}"
        case Answers(fate, _, requests, _):
            return f"answers {fate.value}: request {', '.join(map(str, requests))}"
        case Reply(request, result):
            return f"replies to request {request}: {reply(result)}"
        case Serve(requests, applied):
            return f"serves read {', '.join(map(str, requests))} at {applied}"
        case Stop(reason):
            return f"stops: {reason}"
        case _:
            return storage(one)


def question(body: object) -> str:
    match body:
        case Resolve(entry):
            return f"what became of {entry}?"
        case QuorumRead(is_linearizable=is_linearizable):
            return "a linearizable read" if is_linearizable else "a local read"
        case Reconfigure(what):
            return change(what)
        case _:
            return type(body).__name__.lower()


def reply(result: object) -> str:
    match result:
        case Metadata():
            return metadata(result)
        case Resolution():
            return result.name
        case _:
            return str(result)


def storage(one: Effect) -> str | None:
    match one:
        case Persist(first, records):
            return f"writes {entries(first, records)}"
        case TruncateLog(lsn):
            return f"truncates its log to {lsn}"
        case TrimLog(lsn):
            return f"trims its log before {lsn}"
        case SaveState(state):
            return f"saves epoch {state.epoch}, confirmed {state.confirmed}"
        case Apply(first, new, doomed):
            skipped = f" (doomed: {', '.join(map(str, doomed))})" if doomed else ""
            return f"applies {first} to {first + len(new) - 1}{skipped}"
        case KeepLost(first, last, _):
            return f"keeps {first} to {last} in the lost-and-found"
        case TakeSnapshot(snapshot):
            return f"takes a snapshot at {snapshot.head}"
        case RestoreSnapshot(snapshot):
            return f"restores the snapshot at {snapshot.head}"
        case WriteSnapshot(snapshot, position, data, _):
            return f"stores {len(data)} bytes of the snapshot at {snapshot.head} from {position} on"
        case _:
            return None
