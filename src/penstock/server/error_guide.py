"""What each error code means for a person: how it comes about, and what to do next.

Kept apart from the classes in `kernel/errors.py`, which say what a program needs. A test holds the two together: every
code has an entry here, and `docs/reference/errors.md` is written from both.
"""

from typing import Final

import msgspec

from penstock.kernel.errors import PenstockError

__all__ = ["Guide", "error_kinds", "guide"]


class Guide(msgspec.Struct, frozen=True):
    """How an error comes about, and the next step."""

    cause: str
    next_step: str


def guide(code: str) -> Guide:
    """The entry of a code. A code without one is a defect, and a test finds it."""
    return _GUIDE[code]


def error_kinds() -> list[type[PenstockError]]:
    """Every kind of error, in the order of the tree: a family, then its members."""
    found: list[type[PenstockError]] = []
    waiting: list[type[PenstockError]] = [PenstockError]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        ours = [each for each in kind.__subclasses__() if each.__module__.startswith("penstock")]
        waiting.extend(reversed(ours))
    return found


_GUIDE: Final = {
    "error": Guide(
        "The other side runs a newer version and sent a code this one does not know.",
        "Read its message, which is complete, and upgrade the older side.",
    ),
    "local": Guide(
        "The calling program used something in a way it does not allow.",
        "Correct the call: the same one will fail again.",
    ),
    "invalid-argument": Guide(
        "A command line, a name or a value that no state of the system would accept.",
        "Compare it with the command's --help; the message names the part that does not fit.",
    ),
    "config": Guide(
        "A configuration key is unknown, its value does not fit, two keys contradict each other, or a file it names "
        "cannot be used.",
        "Correct the places that the message names, then run: penstock config check",
    ),
    "already-closed": Guide(
        "A connection, WAL or other object was used after it was closed: mostly an `async with` block left too early.",
        "Keep the block open for as long as the object is used.",
    ),
    "remote": Guide(
        "The other side broke the protocol. Its connection was closed; other connections are not harmed.",
        "See the log of the other side; make sure that it is a Penstock process of a fitting version.",
    ),
    "malformed-frame": Guide(
        "Bytes arrived which are no frame, or whose body does not decode: another protocol on our port (a browser, a "
        "health check, TLS against plain text), or damage on the way.",
        "Check that both sides mean the same port and agree on TLS: penstock config show",
    ),
    "frame-too-large": Guide(
        "A frame is above what this side allows.",
        "Send smaller messages, or raise wire.frame_bytes_max on the receiving side.",
    ),
    "protocol-violation": Guide(
        "A well-formed frame came where it may not: an unasked reply, more than the window allows, a second hello.",
        "Upgrade the older side; if both run the same version, report it with both logs.",
    ),
    "version-mismatch": Guide(
        "The two sides share no version of the protocol.",
        "Upgrade the older side: penstock version",
    ),
    "refused": Guide(
        "The service understood the request, and its rules forbid it.",
        "Read the reason in the message: the same request is refused again until that changes.",
    ),
    "unauthenticated": Guide(
        "The server asks for a token, and none or a wrong one was shown.",
        'Set the server\'s token: PENSTOCK_WIRE_TOKEN, or wire.token = "file:PATH" in the configuration.',
    ),
    "not-found": Guide(
        "What the request names does not exist: never made, already removed, or misspelled.",
        "List what there is, and compare the name letter by letter.",
    ),
    "precondition-failed": Guide(
        "The request has a condition that does not hold: another client was faster.",
        "Read the present state, and decide again on that.",
    ),
    "limit-exceeded": Guide(
        "The request is above a configured limit.",
        "Ask for less at once, or raise the limit the message names: penstock config keys",
    ),
    "writer-expired": Guide(
        "A journal has forgotten this writer of transactions: it was idle for a day, or hundreds have written since.",
        "Read the journal. If it has no such append, append it with a number above the one that the error names",
    ),
    "compacted": Guide(
        "A reader asked for a part of the KeySpace's history which is already dropped: it was behind for too long.",
        "Read the present state and watch on from there; Penstock's own mirrors do so by themselves.",
    ),
    "lease-expired": Guide(
        "A process did not renew its lease in time (paused, overloaded, or cut off from the KeySpace), or it "
        "was revoked. Every key it held under that lease is gone.",
        "Start the process again: it takes a new lease. If it happens often, raise the lease's time.",
    ),
    "already-exists": Guide(
        "A repository, a branch or a tag of that name exists already.",
        "Choose another name, or use the existing one.",
    ),
    "dirty-branch": Guide(
        "The branch has changes which are staged and not committed; a merge into it would mix them up with its own.",
        "Commit them (penstock lake commit) or drop them (penstock lake branch reset), then ask again.",
    ),
    "fenced": Guide(
        "Another process has taken the shard over while this one still worked on it: it was slow, or cut off.",
        "Nothing: what this process had not committed is done again by the other.",
    ),
    "forbidden": Guide(
        "The request is never allowed, such as deleting a repository's default branch.",
        "Read the message: it names the protected object, and the reason.",
    ),
    "gone": Guide(
        "The garbage collector has given up this commit or object: nothing referred to it when it was collected.",
        "Use a newer commit; keep what you need longer by a tag or a branch.",
    ),
    "staged-file-missing": Guide(
        "A worker of Spark wrote a file of a batch where the lake cannot see it, or the file was cut short since.",
        "Share the lake's folder with the workers under its own path, or keep the lake in a bucket.",
    ),
    "table-changed": Guide(
        "A table has changed since its writer read it: a rewrite would remove rows, or a batch would lack columns.",
        "Read the table again and repeat the work on that; a pipeline does so by itself.",
    ),
    "merge-conflict": Guide(
        "Since their merge base, both sides changed the same paths, each in its own way.",
        "See the paths (penstock lake diff), then merge with --strategy source-wins or dest-wins; or change one side.",
    ),
    "no-changes": Guide(
        "No uncommitted changes, or they equal the committed state; or the source of a merge has nothing new.",
        "Nothing needs to be done; where an empty commit is wanted, allow it (--allow-empty).",
    ),
    "unavailable": Guide(
        "The service cannot serve this now, but will be able to later.",
        "Try the same again after a pause; nothing was written.",
    ),
    "connect-failed": Guide(
        "No connection could be made: no server listens there, a firewall is between, a name does not resolve, or "
        "the two sides disagree about TLS.",
        "Check the address, and that the server runs; then try again.",
    ),
    "head-lost": Guide(
        "No broker of the journal has all that its last epoch acknowledged: too many lost their spools at once.",
        "Bring back a broker that has them. If none will come back: penstock journals reset-head",
    ),
    "not-leader": Guide(
        "The request went to a node which follows, or waits for an election: only the leader of a shard takes it.",
        "Our client asks the leader by itself; if no node leads for long, see: penstock quorum status",
    ),
    "overloaded": Guide(
        "A bounded queue is full: more is asked for than can be done right now.",
        "Slow down and try again after a pause; if it stays, add capacity.",
    ),
    "shutting-down": Guide(
        "The process is ending and takes no new work.",
        "Try again: another process takes over, or this one comes back.",
    ),
    "indeterminate": Guide(
        "The request was sent and its answer never came, so it may have taken effect, or may still.",
        "Read whether it did before repeating what must not happen twice.",
    ),
    "connection-lost": Guide(
        "The connection broke after the request was sent, before its answer came.",
        "Read whether it took effect; repeat at once only what may happen twice.",
    ),
    "deadline-exceeded": Guide(
        "No answer came within the time the caller allowed.",
        "Read whether it took effect; then repeat it with a longer deadline.",
    ),
    "cancelled": Guide(
        "The caller gave up (Ctrl-C, or its own task was cancelled) while the request was on its way.",
        "Read whether it took effect before repeating it.",
    ),
    "storage": Guide(
        "The disk or the object store failed.",
        "See the message and the system's own log (dmesg, the bucket's provider) for the reason.",
    ),
    "wal-corrupt": Guide(
        "A record in the middle of a WAL cannot be read back although it was acknowledged: the disk, or an "
        "editor, changed it. No record after it is trusted.",
        "Keep the folder as evidence, replace the disk, and let the node copy its data from its replicas again.",
    ),
    "wal-poisoned": Guide(
        "A write or fsync failed, and after that the content of the disk is unknown: the process stops on purpose.",
        "Find out why the disk failed (dmesg, df), then start the process again: it recovers from its log.",
    ),
    "disk-full": Guide(
        "No space is left on the device, or a quota is used up.",
        "Make room (df -h, df -i). A broker takes appends again by itself; other roles must be started again.",
    ),
    "data-damaged": Guide(
        "Bytes on a disk or in a store changed after they were written: a flipped bit, or a file that was cut.",
        "Look at the note in the quarantine that the message names, and restore the bytes from a replica or a backup.",
    ),
    "data-missing": Guide(
        "The store has no object under a name that a commit or an entry refers to: another program deleted it.",
        "Restore the object under its name from a backup or a version of the bucket, or put the path again.",
    ),
    "format-too-new": Guide(
        "A newer release wrote this file, record or level, and an older one was started on it.",
        "Start the release that wrote it; this one has changed nothing, and skips nothing.",
    ),
    "unimplemented": Guide(
        "The server is of an older release than the client, or its role has no such method.",
        "Upgrade the server, or ask the role that serves it; penstock status shows releases and roles.",
    ),
    "object-store-failed": Guide(
        "The object store refused or did not answer: wrong keys, no such bucket, or an outage.",
        "Check objectstore.* with: penstock config show; an outage passes, and the request may be repeated.",
    ),
    "keyspace-forgot": Guide(
        "The KeySpace is at an older revision than it was, or its file was replaced or removed: a restored backup, a "
        "data folder deleted under running processes. Its assignments can no longer be trusted.",
        "Stop every process that uses it before you decide: a forgetful KeySpace can lose appends.",
    ),
    "internal": Guide(
        "A defect in Penstock: an invariant is broken, or an unforeseen failure.",
        "Run it again with --debug, and report the trace with the output of: penstock version",
    ),
}
