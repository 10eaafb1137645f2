"""Journals: replicated, transactional byte logs. Design: transactional-appends.rst, as corrected by journals.md.

The core is `Replica` (replica.py): one per journal which a broker serves, or still holds something of. It decides
everything and does nothing: `step(event, now)` returns effects, in order; effects after a `SaveState` wait until that
is durable (`base.effects.in_segments`). This page is the contract with the shell which runs it.

    replica = Replica(me, journal, incarnation, config, is_kept=spec.fsync, state=what SaveState last wrote, or None)

`me` is the broker's name in assignments (`zone#suffix`), `incarnation` is new for every Spool which starts empty.
`is_kept`: the Spool survives a restart (files are named, content is synced before its state); without it nothing is
ever saved, and a restarted broker starts with an empty Spool.

**Events** (`effects.py`, and `Received`, `Requested`, `StateSaved`, `TimerFired` of `base.effects`)

    TopologyChanged(topology)        the mirror moved and something of the journal changed (item, assignments, head), or
                                     an awaited revision has come. Cut it out with `Topology.of`, or `topology_of`.
                                     Also when the journal is gone (no spec), or this broker is no longer a member.
    Requested(id, AppendRequest)     a client wants to append; ends in one Reply(id, AppendResponse) or one Proxy
    Requested(id, ResetHead)         an operator's reset-head; Reply(id, AppendResponse)
    Requested(id, Resolve)           what became of an UNKNOWN append; Reply(id, Resolution)
    ContentReceived(id, content)     a chunk, only after ReadContent(id): bytes or a memoryview, passed on as it is
    ContentEnded(id, sum, append_sum, content)
                                     the client committed; `content` may be the last or only chunk. `sum`: SHA-1 of the
                                     current Fragment with all of it; `append_sum`: of this append alone
    AppendAborted(id, reason)        the client rolled back, vanished, or was too slow (minimum flow rate)
    Received(peer, message)          from a Replicate stream, in order per stream, all but ProposeRequest
    ProposalReceived(peer, message, sum)
                                     a ProposeRequest; `sum`: SHA-1 of our Fragment with all content written so far
    StreamClosed(peer, epoch)        that stream has ended or broke, from either side
    Transacted(number, end, revision)  the transaction is done, lost (a compare failed), or unknown
    StateSaved()                     the oldest SaveState not yet answered is durable
    IndexRefreshed(end)              the stores were listed; tell it once before appends can flow, then at each refresh
    TimerFired(name)                 "pulse", "retry", "deadline"

**Effects**

    Send(peer, message)              over the Replicate stream of `message.epoch` with that peer; a PromiseRequest opens
                                     it. If it cannot be opened or breaks: StreamClosed(peer, epoch)
    CloseStream(peer, epoch)         end it, after the messages already sent
    SaveState(SpoolState)            make content up to its end, then this state durable. Completed by StateSaved
    ReadContent(id)                  it is this append's turn: feed its content. Nothing else is written meanwhile
    WriteContent(content)            after the present content; add it to the running SHA-1
    CutSpool(point)                  cut to point.end in the Fragment which begins at point.begin; the running SHA-1 is
                                     the one at that point (keep `hash.copy()` of the points above the mark, or rehash)
    RollSpool(point)                 begin an empty Fragment there, of that codec and postfix; keep older ones
    DropSpool()                      delete every file of this journal's Spool
    Upload(fragment)                 it is final and may be stored: the primary at once, others late and if not yet
                                     there. Keep its file, for readers too, until it is in the store
    SetAside(fragment, mark)         an alarm: keep a copy of the content above the mark, never upload
    Alarm(status, reason)            no append can succeed until an operator acts: count and log it, wake readers
    ShowMark(mark, epoch)            wake readers: everything below may be seen
    Transact(number, transaction)    run it on the KeySpace; Transacted
    AwaitRevision(revision)          TopologyChanged as soon as the mirror has that revision (also if it has it already)
    Reply(id, result)
    Proxy(id, to, revision)          hand the request to `to`, with min_revision=revision and may_proxy=False
    SetTimer(name, at)
    Retired()                        not a member, and everything is decided: drop the replica when its uploads are done

Reads are decided by pure functions (`reading.py`) over the mark, the index and the head table.

What a shell may batch: many messages into one frame; acknowledgements (`ProposeResponse` is cumulative: only the last
of a run needs to be sent); fsyncs. It must not reorder messages of one stream, or send effects that follow a SaveState
before that is durable.
"""
