----------------------------- MODULE MCQuorumLog -----------------------------
(***************************************************************************)
(* Small worlds for TLC: bounds, initial states, symmetry.                 *)
(***************************************************************************)
EXTENDS QuorumLogInvariants, TLC

CONSTANTS
  a, b, c, d,       \* nodes; d is the spare where there is one
  Ensemble,         \* members at the start
  MaxEpoch,         \* epochs
  MaxSync, MaxAsync, MaxRollbacks, MaxConfirms,  \* entries of each kind ever written, lost ones included
  Crashable,        \* nodes which may crash, at any time and any number of times
  Changes,          \* "none", "swap", "expand", "contract", "any": reconfigurations allowed
  Fine              \* BOOLEAN: followers' tails are volatile too, flushes may be partial, leaders may step down,
                    \* snapshots may go to any follower

Symmetry == Permutations({b, c})

Count(kinds) == Cardinality({id \in Epochs \X Offsets : /\ id[2] <= Len(era[id[1]].log)
                                                        /\ era[id[1]].log[id[2]].epoch = id[1]
                                                        /\ era[id[1]].log[id[2]].kind \in kinds})

MCChange(old, new) ==
  CASE Changes = "none" -> FALSE
    [] Changes = "swap" -> old # NoNode /\ new # NoNode
    [] Changes = "expand" -> old = NoNode
    [] Changes = "contract" -> new = NoNode
    [] Changes = "any" -> TRUE

MCOperatorStep ==
  \/ metadata.epoch < MaxEpoch /\ Elect
  \/ Changes # "none" /\ ElectionDone  \* otherwise nobody looks at it
  \/ /\ Changes # "none" /\ metadata.epoch < MaxEpoch
     /\ \E old, new \in Nodes \cup {NoNode} : MCChange(old, new) /\ StartReconfiguration(old, new)
  \/ CommitPhase
  \/ \E e \in Epochs : Complete(e)

MCFollowerStep(n) ==
  LET s == node[n]
      from == IF Mutant = "fenced node's ack" THEN 1 ELSE Max(1, s.epoch)
      heads == IF Mutant \in {"late truncate", "late truncate before the barrier"} THEN Epochs ELSE {HeadId(s.log)[1]}
  IN /\ s.role \in {"FENCED", "FOLLOWER"}
     /\ \/ \E e \in from .. Len(era) : IF Fine THEN AddEntry(n, e) ELSE AddDurableEntry(n, e)
        \/ s.epoch > 0 /\ \E h \in heads : Truncate(n, s.epoch, h)
        \/ Fine /\ \E e \in Max(1, s.epoch) .. Len(era) : Follow(n, e)
        \/ BecomeLeader(n, s.commit)

\* To the new node of a change; if Fine, to any follower. The empty one or the newest one, of all.
MCSnapshot(n, e) ==
  /\ n = era[e].new \/ Fine \/ node[n].role = "UNFORMATTED"
  /\ \E o \in {0, MaxOf(SnapshotPoints(e))} : Snapshot(n, e, o)

MCNodeStep(n) ==
  LET s == node[n]
  IN \/ \E e \in s.epoch + 1 .. Len(era) : Fence(n, e)
     \/ \E e \in Max(1, s.epoch) .. Len(era) : MCSnapshot(n, e)
     \/ \E k \in (IF Fine THEN s.durable + 1 ELSE Len(s.log)) .. Len(s.log) : Flush(n, k)
     \/ n \in Crashable /\ ((\E e \in Durably(s) : Crash(n, e, s.confirmed)) \/ Wipe(n))

MCLeaderStep(n) ==
  /\ node[n].role = "LEADER"
  /\ \/ \E N \in node[n].commit + 1 .. Len(node[n].log) : Commit(n, N)
     \/ MaxRollbacks > 0 /\ Count({"ROLLBACK"}) < MaxRollbacks /\ \E f \in Offsets : Rollback(n, f)
     \/ MaxAsync > 0 /\ \E o \in Offsets : AnswerAsync(n, o)
     \/ Fine /\ StepDown(n)
     \/ Count({"SYNC"}) < MaxSync /\ Write(n, "SYNC", Count(TxnKinds) + 1)
     \/ MaxAsync > 0 /\ Count({"ASYNC"}) < MaxAsync /\ Write(n, "ASYNC", Count(TxnKinds) + 1)
     \/ Count({"CONFIRM"}) < MaxConfirms /\ Confirm(n)
     \/ Prepare(n)
     \/ CommitReconfiguration(n)

MCNext == MCOperatorStep \/ \E n \in Nodes : MCNodeStep(n) \/ MCFollowerStep(n) \/ MCLeaderStep(n)

\* What tells states apart. A node which is fenced and one which follows differ in nothing but the name, unless it may
\* still lead; the right to lead is worth nothing in an epoch which has a leader.
View ==
  <<metadata, era, decided, answered,
    [n \in Nodes |-> [node[n] EXCEPT
        !.role = IF @ = "FOLLOWER" THEN "FENCED" ELSE @,
        !.fresh = @ /\ node[n].epoch > 0 /\ era[node[n].epoch].kind = "ELECTION" /\ era[node[n].epoch].leads = {}]]>>

-----------------------------------------------------------------------------
(* Initial states. All but Cold start in the middle of a story.            *)

Cold == ColdInit(Ensemble)

B(e) == Entry(e, "BARRIER", 0)
X(e) == Entry(e, "SYNC", 1)

Metadata(e, status, leader) == [epoch |-> e, status |-> status, ensemble |-> Ensemble, leader |-> leader,
                                phase |-> "NONE", old |-> NoNode, new |-> NoNode, formed |-> TRUE]
Led(leader, log) == [Era("ELECTION", Metadata(0, "ELECTION", NoNode), NoNode, NoNode, NoNode) EXCEPT
                       !.leads = {leader}, !.log = log]
Fenced(e, log) == [Unformatted EXCEPT !.epoch = e, !.role = "FENCED", !.log = log, !.durable = Len(log)]
Leader(e, log, durable, commit) ==
  [Unformatted EXCEPT !.epoch = e, !.role = "LEADER", !.log = log, !.durable = durable, !.commit = commit, !.voters = Ensemble]

Story(md, eras, nodes, committed) ==
  /\ metadata = md
  /\ era = eras
  /\ node = [n \in Nodes |->
       IF nodes[n].role # "LEADER" THEN nodes[n]
       ELSE [nodes[n] EXCEPT !.cursor = [x \in Nodes |-> IF x \in Ensemble \ {n} THEN Ack(nodes[n], nodes[x]) ELSE 0]]]
  /\ decided = committed
  /\ answered = {}

\* Epoch 1 in steady state: a leads, its barrier is committed and durable everywhere
Steady ==
  Story(Metadata(1, "STEADY_STATE", a), <<Led(a, <<B(1)>>)>>,
        [n \in Nodes |-> IF n = a THEN Leader(1, <<B(1)>>, 1, 1)
                         ELSE IF n \in Ensemble THEN Fenced(1, <<B(1)>>) ELSE Unformatted],
        <<B(1)>>)

\* S1 after two epochs: a wrote X alone in epoch 1, c its barrier alone in epoch 2
Figure8 ==
  Story(Metadata(2, "ELECTION", NoNode), <<Led(a, <<B(1), X(1)>>), Led(c, <<B(1), B(2)>>)>>,
        [n \in Nodes |-> IF n = a THEN Fenced(1, <<B(1), X(1)>>)
                         ELSE IF n = b THEN Fenced(2, <<B(1)>>) ELSE Fenced(2, <<B(1), B(2)>>)],
        <<B(1)>>)

\* S20 after three epochs: a wrote X alone in epoch 1 and its barrier alone in epoch 3, b its barrier alone in epoch 2
TwoAtOneOffset ==
  Story(Metadata(3, "ELECTION", NoNode),
        <<Led(a, <<B(1), X(1)>>), Led(b, <<B(1), B(2)>>), Led(a, <<B(1), X(1), B(3)>>)>>,
        [n \in Nodes |-> IF n = a THEN Fenced(3, <<B(1), X(1), B(3)>>)
                         ELSE IF n = b THEN Fenced(2, <<B(1), B(2)>>) ELSE Fenced(3, <<B(1)>>)],
        <<B(1)>>)

\* A swap of b for d in phase COMMIT, which leader a has carried out
Swapped ==
  LET final == {a, c, d}
      md == [Metadata(2, "RECONFIGURATION", a) EXCEPT !.phase = "COMMIT", !.old = b, !.new = d]
      change == [Era("RECONFIGURATION", Metadata(1, "STEADY_STATE", a), a, b, d) EXCEPT
                   !.commit = TRUE, !.switched = TRUE, !.leads = {a}, !.log = <<B(1), B(2)>>]
      leader == Leader(2, <<B(1), B(2)>>, 2, 2)
  IN Story(md, <<Led(a, <<B(1)>>), change>>,
           [n \in Nodes |-> IF n = a THEN [leader EXCEPT !.voters = final]
                            ELSE IF n = b THEN Fenced(1, <<B(1)>>) ELSE Fenced(2, <<B(1), B(2)>>)],
           <<B(1), B(2)>>)

\* a wrote X alone in epoch 1; b leads epoch 2, and a has answered its Fence with the head (1, 2)
Diverged ==
  Story(Metadata(2, "STEADY_STATE", b), <<Led(a, <<B(1), X(1)>>), Led(b, <<B(1), B(2)>>)>>,
        [n \in Nodes |-> IF n = a THEN Fenced(2, <<B(1), X(1)>>)
                         ELSE IF n = b THEN Leader(2, <<B(1), B(2)>>, 2, 1) ELSE Fenced(2, <<B(1)>>)],
        <<B(1)>>)

\* The same in epoch 3, which b leads too: it has a CONFIRM of epoch 2 to send again before its barrier
Resent ==
  LET log == <<B(1), B(2), Entry(2, "CONFIRM", 2)>>
  IN Story(Metadata(3, "STEADY_STATE", b), <<Led(a, <<B(1), X(1)>>), Led(b, log), Led(b, Append(log, B(3)))>>,
           [n \in Nodes |-> IF n = a THEN Fenced(3, <<B(1), X(1)>>)
                            ELSE IF n = b THEN Leader(3, Append(log, B(3)), 4, 2) ELSE Fenced(3, <<B(1), B(2)>>)],
           <<B(1), B(2)>>)
=============================================================================
