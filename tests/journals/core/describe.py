"""Events, effects and messages of the append core in one line each, in the words of journals.md."""

from penstock.journals.core.effects import (
    AppendAborted,
    CloseStream,
    ReadContent,
    StreamClosed,
    TopologyChanged,
    Transact,
    Transacted,
)
from penstock.journals.records.api import AppendRequest, AppendResponse
from penstock.journals.records.messages import (
    AdoptRequest,
    AdoptResponse,
    ContentRequest,
    MarkRequest,
    Message,
    PromiseRequest,
    PromiseResponse,
    ProposeRequest,
    ProposeResponse,
    RefuseResponse,
)
from penstock.kernel.effects import Effect, Event, Received, Reply, Requested, Send, TimerFired
from penstock.keyspace.core.transaction import Transaction
from penstock_lab.explorer_journal.site import ModelFeed


def message(one: Message) -> str:
    name = type(one).__name__.removesuffix("Request")
    return f"{name}({one.epoch}){details(one)}"


def details(one: Message) -> str:
    match one:
        case PromiseRequest(route=route):
            return f": Route {route}"
        case PromiseResponse(spool_epoch=epoch, mark=mark, points=points):
            return f": Spool of {epoch}, mark {mark}, {points[-1]}"
        case AdoptRequest(point=point):
            return f": {'begin at' if point.is_empty else 'go on with'} {point}"
        case ContentRequest(delta=delta, content=content):
            return f": {len(content)} bytes behind {delta}"
        case ProposeRequest(seq=seq, point=point, mark=mark, acknowledge=acknowledge, content=content):
            number, brings = f"#{seq} " if acknowledge else "", f" with {len(content)} bytes" if content else ""
            return f": {number}{point}{brings}, registers {point.registers}, mark {mark}"
        case ProposeResponse(seq=seq):
            return f": up to #{seq}"
        case MarkRequest(mark=mark):
            return f": {mark}"
        case RefuseResponse(refusal=refusal):
            return f": {refusal.value}"
        case AdoptResponse() | _:
            return ""


def event(one: Event) -> str:
    match one:
        case Received(sender, said):
            return f"hears {sender}: {message(said)}"
        case StreamClosed(peer, epoch):
            return f"hears that the stream {epoch} with {peer} has ended"
        case TopologyChanged(topology):
            head = f", head {topology.head.epoch} from {topology.head.start}" if topology.head is not None else ""
            return f"sees revision {topology.revision}: Route {topology.route}{head}"
        case Requested(request, AppendRequest()):
            return f"is asked to append {request}"
        case Requested(request, body):
            return f"is asked {request}: {type(body).__name__}"
        case ModelFeed(request, content, is_end):
            return f"reads {len(content)} bytes of append {request}{', and its end' if is_end else ''}"
        case AppendAborted(request, _):
            return f"loses the client of append {request}"
        case Transacted(_, end, _):
            return f"hears of its transaction: {end.value}"
        case TimerFired(name):
            return f"hears its {name} timer"
        case _:
            return type(one).__name__


def effect(one: Effect) -> str:
    match one:
        case Send(to, said):
            return f"to {to}: {message(said)}"
        case CloseStream(peer, epoch):
            return f"ends the stream {epoch} with {peer}"
        case Transact(_, transaction):
            return f"asks the KeySpace to put {keys(transaction)}"
        case ReadContent(request):
            return f"wants the content of append {request}"
        case Reply(request, AppendResponse() as answer):
            return f"tells append {request}: {reply(answer)}"
        case Reply(request, result):
            return f"answers {request}: {result}"
        case _:
            return str(one)


def keys(transaction: Transaction) -> str:
    return ", ".join(put.key.rpartition("/sim/")[2] for put in transaction.then)


def reply(answer: AppendResponse) -> str:
    where = f" [{answer.commit.begin}, {answer.commit.end})" if answer.commit is not None else ""
    why = f", {answer.status.value}" if answer.status.value != "ok" else ""
    return f"{answer.fate.value}{where}{why}"
