------------------------------ MODULE QuorumLog ------------------------------
(***************************************************************************)
(* Penstock's quorum log: the limbo on the leader of an epoch-fenced log.  *)
(* Design: quorum-log.md, rules P1 to P14; each action names its rule.     *)
(*                                                                         *)
(* There is no message soup.  Messages may be lost, late, doubled and out  *)
(* of order, so a message which was ever sent may arrive at any later      *)
(* time; `era` keeps, per epoch, what its messages were made from.         *)
(* Knowledge which only delays a decision (acks, answers) arrives at once: *)
(* acting on it late is already a behaviour.  See README.md.               *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Nodes,   \* members and spares: a pair (id, incarnation) each, P14
  NoNode,  \* not a node
  Mutant   \* "none", or the name of the one rule which is broken (specs/mutants)

VARIABLES
  metadata, \* [epoch, status, ensemble, leader, phase, old, new, formed]: operators compare and set it
  era,      \* era[e]: what was written into the metadata, answered, led and logged in epoch e; history
  node,     \* node[n]: see NodeState
  decided,  \* the longest committed log so far; history, seen by invariants only
  answered  \* ids of async transactions which were answered OK; history

vars == <<metadata, era, node, decided, answered>>

-----------------------------------------------------------------------------
(* Entries, ids, logs. An id is <<epoch, offset>>; offsets count from 1.   *)

TxnKinds == {"SYNC", "ASYNC"}
Kinds == TxnKinds \cup {"BARRIER", "CONFIRM", "ROLLBACK"}

\* value: a transaction's payload, CONFIRM's u, ROLLBACK's f, 0 for a BARRIER
Entry(e, kind, value) == [epoch |-> e, kind |-> kind, value |-> value]
IsTxn(entry) == entry.kind \in TxnKinds

NoId == <<0, 0>>
IdAt(s, i) == IF i = 0 THEN NoId ELSE <<s[i].epoch, i>>
HeadId(s) == IdAt(s, Len(s))
AtMost(a, b) == a[1] < b[1] \/ (a[1] = b[1] /\ a[2] <= b[2])
Holds(s, id) == id = NoId \/ (id[2] <= Len(s) /\ s[id[2]].epoch = id[1])

Max(a, b) == IF a >= b THEN a ELSE b
Min(a, b) == IF a <= b THEN a ELSE b
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y  \* S is not empty
IsPrefix(s, t) == Len(s) <= Len(t) /\ s = SubSeq(t, 1, Len(s))
Majority(count, size) == 2 * count > size

\* ROLLBACK(f)@j dooms the transactions in [f, j)
Inside(s, i) == \E j \in i + 1 .. Len(s) : s[j].kind = "ROLLBACK" /\ s[j].value <= i
Doomed(s, i) == IsTxn(s[i]) /\ Inside(s, i)
\* The last offset <= i outside every [f, j): where a state machine may stop
RECURSIVE Land(_, _)
Land(s, i) == IF Inside(s, i) THEN Land(s, i - 1) ELSE i
\* What the first `upto` entries confirm
ConfirmedBy(s, upto) == MaxOf({0} \cup {s[k].value : k \in {x \in 1 .. upto : s[x].kind = "CONFIRM"}})

-----------------------------------------------------------------------------
(* A node. Durable: epoch, confirmed, log[1..durable]. The rest dies with  *)
(* the process.                                                            *)

NodeState == [
  epoch: Nat,
  role: {"UNFORMATTED", "FENCED", "FOLLOWER", "LEADER"},
  fresh: BOOLEAN,           \* was fenced into this epoch in this run, and neither led nor followed in it: may lead
  log: Seq([epoch: Nat, kind: Kinds, value: Nat]),
  durable: Nat,             \* log[1..durable] survives a crash
  confirmed: Nat,           \* the register of P4
  commit: Nat,              \* the highest offset this node itself knows committed
  voters: SUBSET Nodes,     \* leader: the ensemble whose majority commits
  cursor: [Nodes -> Nat]]   \* leader: what each follower has acknowledged as durable in this leadership

NoCursor == [n \in Nodes |-> 0]
Unformatted == [epoch |-> 0, role |-> "UNFORMATTED", fresh |-> FALSE, log |-> <<>>, durable |-> 0, confirmed |-> 0,
                commit |-> 0, voters |-> {}, cursor |-> NoCursor]

Leading(s, e) == s.role = "LEADER" /\ s.epoch = e

\* P4: a follower applies what is confirmed, a leader what is committed and durable, both at a landing point
ApplyPoint(n) ==
  LET s == node[n]
  IN IF Mutant = "apply to min(commit, head)" /\ s.role = "FOLLOWER"
     THEN MaxOf({s.confirmed} \cup {Min(node[m].commit, Len(s.log)) : m \in {x \in Nodes : Leading(node[x], s.epoch)}})
     ELSE IF s.commit = s.confirmed THEN s.confirmed
     ELSE IF s.commit <= s.durable THEN s.commit
     ELSE Max(s.confirmed, Land(s.log, s.durable))

-----------------------------------------------------------------------------
(* Ensembles and eras.                                                     *)

Change(ensemble, old, new) == (ensemble \ {old}) \cup ({new} \ {NoNode})

\* The ensemble which the metadata promise: an election counts its majority (P11, Election)
Final(md) == IF md.phase = "COMMIT" THEN Change(md.ensemble, md.old, md.new) ELSE md.ensemble

\* kind: how the epoch began. ensemble and final: as above, when it began.
\* leader, old, new: of a reconfiguration. commit: phase COMMIT was written. switched: the leader said it switched.
\* forming: there never was a leader before.
\* answer[n]: the durable head in n's answer to Fence. leads: who appended in this epoch. log: the longest log its leader had.
Era(kind, md, leader, old, new) ==
  [kind |-> kind, ensemble |-> md.ensemble, final |-> IF kind = "ELECTION" THEN Final(md) ELSE Change(md.ensemble, old, new),
   leader |-> leader, old |-> old, new |-> new, commit |-> FALSE, switched |-> FALSE, forming |-> ~md.formed,
   answer |-> [n \in Nodes |-> NoId], answers |-> {}, leads |-> {}, log |-> <<>>]

\* To whom the leader of epoch e sends entries
Members(e) ==
  IF era[e].kind = "ELECTION" THEN era[e].final
  ELSE IF Mutant = "old node's acks kept" THEN era[e].ensemble \cup era[e].final
  ELSE era[e].final
\* The election by which the leader of e came to lead
Elected(e) == MaxOf({x \in 1 .. e : era[x].kind = "ELECTION"})

\* Leader m has handled Prepare, and not yet CommitReconfiguration
Preparing(s) == era[s.epoch].kind = "RECONFIGURATION" /\ s.voters = era[s.epoch].ensemble
Voting(s) ==
  IF ~Preparing(s) THEN s.voters
  ELSE IF Mutant = "old node's acks kept" THEN s.voters
  ELSE IF Mutant = "new node counted before COMMIT" THEN era[s.epoch].final
  ELSE s.voters \ {era[s.epoch].old}

\* P2: who is durable up to N, as leader m knows it; the majority is of the whole ensemble, a removed node counted out
Durable(m, N) == {v \in Voting(node[m]) :
                    IF v = m THEN node[m].durable >= N \/ Mutant = "own vote before durable"
                    ELSE node[m].cursor[v] >= N}
Quorum(m, N) == Majority(Cardinality(Durable(m, N)), Cardinality(node[m].voters))

BarrierOf(s, e) == MaxOf({0} \cup {i \in 1 .. Len(s) : s[i].epoch = e /\ s[i].kind = "BARRIER"})

-----------------------------------------------------------------------------
(* Every action ends in Step: what nodes then know of each other.          *)

\* What leader state s learns from follower state f, which may be n's: cumulative acks of this epoch only (P9)
Ack(s, f) ==
  IF /\ f.role \in {"FENCED", "FOLLOWER"}
     /\ f.epoch = s.epoch \/ (Mutant = "fenced node's ack" /\ f.epoch > s.epoch)
     /\ Holds(s.log, IdAt(f.log, f.durable)) \/ (Mutant = "one-round truncate" /\ f.durable <= Len(s.log))
  THEN IF Mutant = "unsynced head" /\ Holds(s.log, HeadId(f.log)) THEN Len(f.log) ELSE f.durable
  ELSE 0

Learn(nodes) ==
  [m \in Nodes |->
    IF nodes[m].role # "LEADER" THEN nodes[m]
    ELSE LET followed == (nodes[m].voters \cup Members(nodes[m].epoch)) \ {m}
         IN [nodes[m] EXCEPT !.cursor =
              [n \in Nodes |-> IF n \in followed THEN Max(@[n], Ack(nodes[m], nodes[n])) ELSE 0]]]

\* P9: Fence is answered once in-flight writes are settled; the head in the answer is durable and final
Settled(s) == s.role = "FENCED" /\ (s.durable = Len(s.log) \/ Mutant = "unsynced head")
Answers(eras, nodes) ==
  [e \in 1 .. Len(eras) |->
    IF eras[e].kind # "ELECTION" \/ (eras[e].leads # {} /\ eras[e].answers = {}) THEN eras[e]
    ELSE IF eras[e].leads # {} /\ Mutant # "epoch resumed"
    THEN [eras[e] EXCEPT !.answers = {}, !.answer = [n \in Nodes |-> NoId]]  \* nobody asks any more
    ELSE LET new == {n \in Nodes \ eras[e].answers : nodes[n].epoch = e /\ Settled(nodes[n])}
         IN [eras[e] EXCEPT !.answers = @ \cup new,
                            !.answer = [n \in Nodes |-> IF n \in new THEN HeadId(nodes[n].log) ELSE @[n]]]]

Step(nodes, eras) == node' = Learn(nodes) /\ era' = Answers(eras, nodes)

-----------------------------------------------------------------------------
(* The operators: every step is one compare-and-set of the metadata, so    *)
(* any number of them may battle. What they send follows from era.         *)

\* An election, from any status: a new epoch always. COMMIT is kept, PREPARE is dropped (P11).
Elect ==
  /\ LET kept == metadata.phase = "COMMIT" /\ Mutant # "reconfiguration forgotten"
         md == IF kept THEN metadata ELSE [metadata EXCEPT !.phase = "NONE", !.old = NoNode, !.new = NoNode]
     IN /\ metadata' = [md EXCEPT !.epoch = @ + 1, !.status = "ELECTION", !.leader = NoNode]
        /\ Step(node, Append(era, Era("ELECTION", md, NoNode, NoNode, NoNode)))
  /\ UNCHANGED <<decided, answered>>

ElectionDone ==
  /\ metadata.status = "ELECTION" /\ metadata.epoch > 0
  /\ \E n \in era[metadata.epoch].leads :
       metadata' = [metadata EXCEPT !.status = "STEADY_STATE", !.ensemble = Final(metadata), !.leader = n,
                                    !.phase = "NONE", !.old = NoNode, !.new = NoNode, !.formed = TRUE]
  /\ UNCHANGED <<era, node, decided, answered>>

\* P11: swap (both), expand (new only), contract (old only)
StartReconfiguration(old, new) ==
  /\ metadata.status = "STEADY_STATE"
  /\ old # new
  /\ old # NoNode => old \in metadata.ensemble \ {metadata.leader}
  /\ new \notin metadata.ensemble
  /\ metadata' = [metadata EXCEPT !.epoch = @ + 1, !.status = "RECONFIGURATION", !.phase = "PREPARE", !.old = old, !.new = new]
  /\ Step(node, Append(era, Era("RECONFIGURATION", metadata, metadata.leader, old, new)))
  /\ UNCHANGED <<decided, answered>>

\* P11 Prepared: barrier(e) is durable on a majority of the final ensemble
Prepared(e) ==
  LET b == BarrierOf(era[e].log, e)
      has == {n \in era[e].final : b <= node[n].durable /\ Holds(node[n].log, <<e, b>>)}
  IN b > 0 /\ Majority(Cardinality(has), Cardinality(era[e].final))

CommitPhase ==
  /\ metadata.phase = "PREPARE"
  /\ Mutant # "COMMIT before Prepared" => Prepared(metadata.epoch)
  /\ metadata' = [metadata EXCEPT !.phase = "COMMIT"]
  /\ era' = [era EXCEPT ![metadata.epoch].commit = TRUE]
  /\ UNCHANGED <<node, decided, answered>>

Complete(e) ==
  /\ era[e].switched
  /\ Mutant # "no compare-and-set" => metadata.epoch = e /\ metadata.status = "RECONFIGURATION"
  /\ metadata' = [epoch |-> e, status |-> "STEADY_STATE", ensemble |-> era[e].final, leader |-> era[e].leader,
                  phase |-> "NONE", old |-> NoNode, new |-> NoNode, formed |-> TRUE]
  /\ UNCHANGED <<era, node, decided, answered>>

-----------------------------------------------------------------------------
(* What happens to any node.                                               *)

\* P9. Also with the current epoch, to bring back a member (P11). A node without data takes part only in the first
\* elections, before there ever was a leader (P14).
Fence(n, e) ==
  /\ node[n].epoch < e
  /\ node[n].role = "UNFORMATTED" => era[e].forming
  /\ IF era[e].kind = "ELECTION" THEN n \in era[e].ensemble \cup era[e].final
     ELSE n \in era[e].ensemble \ {era[e].old, era[e].leader}
  /\ Step([node EXCEPT ![n] = [@ EXCEPT !.epoch = e, !.role = "FENCED", !.fresh = TRUE, !.voters = {}, !.cursor = NoCursor]], era)
  /\ UNCHANGED <<metadata, decided, answered>>

\* log[1..k] has become durable, and with it what it confirms (P4)
Flush(n, k) ==
  /\ k \in node[n].durable + 1 .. Len(node[n].log)
  /\ LET u == Max(node[n].confirmed, ConfirmedBy(node[n].log, k))
     IN Step([node EXCEPT ![n].durable = k, ![n].confirmed = u, ![n].commit = Max(@, u)], era)
  /\ UNCHANGED <<metadata, decided, answered>>

\* Crash and restart in one: the volatile tail is lost, and the right to lead in this epoch (P9). So is the epoch of a
\* leader which has handled Prepare, until its barrier is durable: it sends before it has written. What the node itself
\* knows committed may have been written down, up to where it has applied: u.
Durably(s) == IF s.epoch > 0 /\ era[s.epoch].kind = "RECONFIGURATION" /\ BarrierOf(s.log, s.epoch) > s.durable
              THEN {s.epoch - 1, s.epoch} ELSE {s.epoch}

Crash(n, e, u) ==
  LET s == node[n]
  IN /\ s.role # "UNFORMATTED"
     /\ e \in Durably(s)
     /\ u \in s.confirmed .. ApplyPoint(n) /\ ~Inside(s.log, u)
     /\ Step([node EXCEPT ![n] = [s EXCEPT !.epoch = e, !.role = "FENCED", !.fresh = FALSE, !.log = SubSeq(@, 1, s.durable),
                                           !.confirmed = u, !.commit = u, !.voters = {}, !.cursor = NoCursor]], era)
     /\ UNCHANGED <<metadata, decided, answered>>

\* A node which learns that its epoch is over, or has heard a Fence and not yet written it down
StepDown(n) ==
  /\ node[n].role \in {"LEADER", "FOLLOWER"}
  /\ Step([node EXCEPT ![n] = [@ EXCEPT !.role = "FENCED", !.voters = {}, !.cursor = NoCursor]], era)
  /\ UNCHANGED <<metadata, decided, answered>>

\* P14, broken: a wiped node comes back as if it were the old one
Wipe(n) ==
  /\ Mutant = "wiped voter"
  /\ node[n].role # "UNFORMATTED"
  /\ Step([node EXCEPT ![n] = [Unformatted EXCEPT !.role = "FENCED"]], era)
  /\ UNCHANGED <<metadata, decided, answered>>

-----------------------------------------------------------------------------
(* What happens to a follower. The sender is the leader of e, dead or not. *)

FollowsIn(n, e) ==
  /\ n \in Members(e) \ era[e].leads
  /\ node[n].role \in {"FENCED", "FOLLOWER"}
  /\ node[n].epoch < e => era[e].kind = "RECONFIGURATION" /\ Elected(e) <= node[n].epoch
  /\ node[n].epoch > e => Mutant = "fenced node's ack"

\* The new node of a change may have any past: it may even believe that it leads
Joins(n, e) == n = era[e].new /\ node[n].role # "UNFORMATTED" /\ node[n].epoch < e

\* A node hears of the leader of e, without an entry
Follow(n, e) ==
  /\ era[e].leads # {}
  /\ ~Joins(n, e) => FollowsIn(n, e) /\ node[n].epoch <= e
  /\ Step([node EXCEPT ![n] = [@ EXCEPT !.epoch = e, !.role = "FOLLOWER", !.fresh = FALSE, !.voters = {},
                                        !.cursor = NoCursor]], era)
  /\ UNCHANGED <<metadata, decided, answered>>

\* P13: an entry goes only behind exactly the entry it followed on the leader
Attached(s, e) == ~Holds(era[e].log, HeadId(s.log)) => Mutant = "one-round truncate" /\ s.role = "FOLLOWER"

AddEntry(n, e) ==
  LET s == node[n]
      k == Len(s.log)
  IN /\ FollowsIn(n, e)
     /\ k < Len(era[e].log)
     /\ Attached(s, e)
     /\ Step([node EXCEPT ![n] = [s EXCEPT !.epoch = Max(@, e), !.role = "FOLLOWER", !.fresh = FALSE,
                                           !.log = Append(@, era[e].log[k + 1])]], era)
     /\ UNCHANGED <<metadata, decided, answered>>

\* AddEntry and Flush in one. A tail which only a follower holds and which may still vanish changes nothing for
\* anyone, so this reaches every state which matters (README.md), and far fewer of the others.
AddDurableEntry(n, e) ==
  LET s == node[n]
      k == Len(s.log)
  IN /\ FollowsIn(n, e)
     /\ k < Len(era[e].log)
     /\ s.durable = k
     /\ Attached(s, e)
     /\ LET entry == era[e].log[k + 1]
            u == IF entry.kind = "CONFIRM" THEN Max(s.confirmed, entry.value) ELSE s.confirmed
        IN Step([node EXCEPT ![n] = [s EXCEPT !.epoch = Max(@, e), !.role = "FOLLOWER", !.fresh = FALSE,
                                              !.log = Append(@, entry), !.durable = k + 1, !.confirmed = u,
                                              !.commit = Max(@, u)]], era)
     /\ UNCHANGED <<metadata, decided, answered>>

\* P13: one round of truncation, for a head which the leader does not hold. The request names that head: a late
\* one, for a head which the node had before, is refused (see literal/late-truncate*.cfg).
UpTo(s, e) == MaxOf({0} \cup {i \in 1 .. Len(s) : s[i].epoch <= e})  \* the last entry of at most this epoch
Cut(s, id) == SubSeq(s, 1, Min(id[2], UpTo(s, id[1])))
CutTo(e, headEpoch) == IdAt(era[e].log, UpTo(era[e].log, headEpoch))

\* Broken: n obeys a request for the head it had when it led headEpoch
ObeysLate(n, e, headEpoch) ==
  /\ CASE Mutant = "late truncate" -> node[n].role = "FENCED"
       [] Mutant = "late truncate before the barrier" -> HeadId(node[n].log)[1] < e
       [] OTHER -> FALSE
  /\ n \in era[headEpoch].leads /\ ~Holds(era[e].log, HeadId(era[headEpoch].log))

Truncate(n, e, headEpoch) ==
  LET s == node[n]
      kept == Cut(s.log, CutTo(e, headEpoch))
  IN /\ FollowsIn(n, e)
     /\ s.epoch = e
     /\ era[e].leads # {}
     /\ s.durable = Len(s.log)
     /\ ~ObeysLate(n, e, headEpoch) => HeadId(s.log)[1] = headEpoch /\ ~Holds(era[e].log, HeadId(s.log))
     /\ Mutant = "one-round truncate" => s.role = "FENCED"
     /\ Step([node EXCEPT ![n].role = "FOLLOWER", ![n].fresh = FALSE, ![n].log = kept, ![n].durable = Len(kept)], era)
     /\ UNCHANGED <<metadata, decided, answered>>

\* P11, P13: a snapshot at a landing point o of the committed log replaces a log which does not hold it; 0 is the empty
\* one. A log which holds it is kept: if its tail is not the leader's, Truncate will find it.
SnapshotPoints(e) == {o \in 0 .. Min(Len(decided), Len(era[e].log)) :
                        /\ ~Inside(era[e].log, o) /\ ~Inside(decided, o)
                        /\ IsPrefix(SubSeq(era[e].log, 1, o), decided)}

Snapshot(n, e, o) ==
  LET s == node[n]
      held == s.role # "UNFORMATTED" /\ Holds(s.log, IdAt(era[e].log, o))
      log == IF held THEN s.log ELSE SubSeq(era[e].log, 1, o)
  IN /\ n \in Members(e) \ era[e].leads
     /\ era[e].leads # {} /\ o \in SnapshotPoints(e)
     /\ s.role # "UNFORMATTED" /\ ~Joins(n, e) => FollowsIn(n, e) /\ s.epoch <= e /\ ~held
     /\ s.durable = Len(s.log)
     /\ Step([node EXCEPT ![n] = [s EXCEPT !.epoch = e, !.role = "FOLLOWER", !.fresh = FALSE, !.voters = {},
                                           !.cursor = NoCursor, !.log = log, !.durable = Len(log),
                                           !.confirmed = Max(@, o), !.commit = Max(@, o)]], era)
     /\ UNCHANGED <<metadata, decided, answered>>

-----------------------------------------------------------------------------
(* What a leader does.                                                     *)

\* m appends an entry, having changed to state s; s.epoch is its epoch
Appends(m, s, entry) ==
  LET t == [s EXCEPT !.log = Append(@, entry)]
  IN Step([node EXCEPT ![m] = t], [era EXCEPT ![s.epoch].log = t.log, ![s.epoch].leads = @ \cup {m}])

\* P1: the first entry of an epoch
Begins(m, s) ==
  IF Mutant = "skip the barrier"
  THEN Step([node EXCEPT ![m] = s], [era EXCEPT ![s.epoch].log = s.log, ![s.epoch].leads = @ \cup {m}])
  ELSE Appends(m, s, Entry(s.epoch, "BARRIER", 0))

\* Election and P9. The operator's choice and its arrival are one step: answers only accumulate, so a choice which
\* could be made then can be made now. The operator sends BecomeLeader(e) once. known: what m knows committed.
Asked(e) == IF Mutant = "fence only the old ensemble" THEN era[e].ensemble ELSE era[e].final
Chosen(n, e) ==
  LET below == {x \in Asked(e) \cap era[e].answers : AtMost(era[e].answer[x], era[e].answer[n])}
  IN n \in Asked(e) \cap era[e].final \cap era[e].answers /\ Majority(Cardinality(below), Cardinality(Asked(e)))

BecomeLeader(n, known) ==
  LET e == node[n].epoch
  IN /\ node[n].role = "FENCED"
     /\ e > 0 /\ era[e].kind = "ELECTION"
     /\ IF Mutant = "BecomeLeader replayed" /\ n \in era[e].leads THEN TRUE
        ELSE /\ node[n].fresh /\ Chosen(n, e)
             /\ Mutant # "epoch resumed" => era[e].leads = {}
     /\ known \in node[n].confirmed .. node[n].commit
     /\ Begins(n, [node[n] EXCEPT !.role = "LEADER", !.fresh = FALSE, !.commit = known, !.voters = era[e].final])
     /\ UNCHANGED <<metadata, decided, answered>>

Write(m, kind, value) ==
  /\ node[m].role = "LEADER"
  /\ Appends(m, node[m], Entry(node[m].epoch, kind, value))
  /\ UNCHANGED <<metadata, decided, answered>>

\* P2. N is any offset which the rule allows: the highest, unless acks are late
Commit(m, N) ==
  LET s == node[m]
  IN /\ s.role = "LEADER"
     /\ N \in s.commit + 1 .. Len(s.log)
     /\ Mutant # "commit of a prior epoch" => s.log[N].epoch = s.epoch
     /\ Mutant # "no landing rule" => ~Inside(s.log, N)
     /\ Quorum(m, N)
     /\ Step([node EXCEPT ![m].commit = N], era)
     /\ decided' = IF N > Len(decided) THEN SubSeq(s.log, 1, N) ELSE decided
     /\ UNCHANGED <<metadata, answered>>

\* P3. u0 is the last u of this leadership. Only what was committed in this epoch is confirmed: a leader's commit may
\* start below its barrier, and CONFIRM(u)@k needs epoch(u) = epoch(k) (I6).
LastConfirm(m) ==
  LET s == node[m].log IN
  MaxOf({0} \cup {s[k].value : k \in {x \in 1 .. Len(s) : s[x].kind = "CONFIRM" /\ s[x].epoch >= Elected(node[m].epoch)}})

Confirm(m) ==
  LET s == node[m]
  IN /\ s.role = "LEADER"
     /\ s.commit > 0
     /\ Mutant # "CONFIRM of a prior epoch" => s.log[s.commit].epoch = s.epoch
     /\ \E i \in LastConfirm(m) + 1 .. s.commit : IsTxn(s.log[i]) \/ s.log[i].kind = "BARRIER"
     /\ Appends(m, s, Entry(s.epoch, "CONFIRM", s.commit))
     /\ UNCHANGED <<metadata, decided, answered>>

\* P5
Rollback(m, f) ==
  LET s == node[m]
  IN /\ s.role = "LEADER"
     /\ f \in 1 .. Len(s.log)
     /\ Mutant # "ROLLBACK of a committed entry" => f > s.commit
     /\ s.log[f].kind = "SYNC"
     /\ Mutant # "ROLLBACK of a prior epoch" => s.log[f].epoch = s.epoch
     /\ ~Doomed(s.log, f)
     /\ Appends(m, s, Entry(s.epoch, "ROLLBACK", f))
     /\ UNCHANGED <<metadata, decided, answered>>

\* P8: an async transaction is answered OK
MayAnswerAsync(m, o) ==
  LET s == node[m]
  IN /\ s.role = "LEADER"
     /\ o \in 1 .. s.durable
     /\ s.log[o].kind = "ASYNC" /\ ~Doomed(s.log, o) /\ s.log[o].epoch >= Elected(s.epoch)
     /\ BarrierOf(s.log, s.epoch) <= s.commit
     /\ Mutant # "async before sync" => \A i \in 1 .. o - 1 : s.log[i].kind = "SYNC" => i <= s.commit

AnswerAsync(m, o) ==
  /\ MayAnswerAsync(m, o)
  /\ IdAt(node[m].log, o) \notin answered
  /\ answered' = answered \cup {IdAt(node[m].log, o)}
  /\ UNCHANGED <<metadata, era, node, decided>>

\* P11: accepted by the active leader of e - 1 whose barrier is committed and applied
Prepare(m) ==
  LET s == node[m]
      e == s.epoch + 1
  IN /\ s.role = "LEADER"
     /\ e <= Len(era) /\ era[e].kind = "RECONFIGURATION" /\ era[e].leader = m
     /\ BarrierOf(s.log, s.epoch) <= Min(s.commit, ApplyPoint(m))
     /\ Begins(m, [s EXCEPT !.epoch = e])
     /\ UNCHANGED <<metadata, decided, answered>>

CommitReconfiguration(m) ==
  LET e == node[m].epoch
  IN /\ node[m].role = "LEADER"
     /\ Preparing(node[m])
     /\ era[e].commit
     /\ Step([node EXCEPT ![m].voters = era[e].final], [era EXCEPT ![e].switched = TRUE])
     /\ UNCHANGED <<metadata, decided, answered>>

-----------------------------------------------------------------------------
Epochs == 1 .. Len(era)
Offsets == 1 .. MaxOf({Len(node[n].log) : n \in Nodes})

OperatorStep ==
  \/ Elect
  \/ ElectionDone
  \/ \E old, new \in Nodes \cup {NoNode} : StartReconfiguration(old, new)
  \/ CommitPhase
  \/ \E e \in Epochs : Complete(e)

NodeStep(n) ==
  \/ \E e \in Epochs : Fence(n, e) \/ Follow(n, e) \/ AddEntry(n, e)
  \/ \E e \in Epochs : \E h \in Epochs : Truncate(n, e, h)
  \/ \E e \in Epochs : \E o \in SnapshotPoints(e) : Snapshot(n, e, o)
  \/ \E k \in Offsets : Flush(n, k) \/ Commit(n, k) \/ Rollback(n, k) \/ AnswerAsync(n, k)
  \/ \E e \in Durably(node[n]) : \E u \in {node[n].confirmed, ApplyPoint(n)} : Crash(n, e, u)
  \/ StepDown(n)
  \/ Wipe(n)
  \/ \E known \in {node[n].confirmed, node[n].commit} : BecomeLeader(n, known)
  \/ \E kind \in TxnKinds, value \in Nat : Write(n, kind, value)
  \/ Confirm(n)
  \/ Prepare(n)
  \/ CommitReconfiguration(n)

Next == OperatorStep \/ \E n \in Nodes : NodeStep(n)

\* A log which was never used: no node has data, epoch 0
ColdInit(ensemble) ==
  /\ metadata = [epoch |-> 0, status |-> "ELECTION", ensemble |-> ensemble, leader |-> NoNode,
                 phase |-> "NONE", old |-> NoNode, new |-> NoNode, formed |-> FALSE]
  /\ era = <<>>
  /\ node = [n \in Nodes |-> Unformatted]
  /\ decided = <<>>
  /\ answered = {}

Spec(ensemble) == ColdInit(ensemble) /\ [][Next]_vars
=============================================================================
