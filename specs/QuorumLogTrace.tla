---------------------------- MODULE QuorumLogTrace ----------------------------
(***************************************************************************)
(* Is a recorded run a behaviour of QuorumLog?  The records say what the   *)
(* metadata and each node looked like after each change (README.md has the *)
(* schema); what they do not say, QuorumLog keeps: what was sent, who has  *)
(* answered, what leaders know of followers.                               *)
(*                                                                         *)
(* One record may be several steps of its node: a core which hears of an   *)
(* ack commits, confirms and answers at once.  TLC looks for them, guided  *)
(* by where the record wants to go.  It prints how far it came: all of the *)
(* trace, or up to the first record which no action allows.                *)
(***************************************************************************)
EXTENDS QuorumLog, TLC

CONSTANTS Ensemble, Trace

VARIABLE matched  \* so many records

traceVars == <<metadata, era, node, decided, answered, matched>>

-----------------------------------------------------------------------------
\* A record has the log from `first` on; `base` is the epoch of the entry before that
Length(r) == r.first - 1 + Len(r.log)
Fits(r, s) == \A i \in r.first .. Min(Len(s), Length(r)) : s[i] = r.log[i - r.first + 1]

\* Node n looks as its record says. Of a node which does not lead only the durable log is known.
Shown(r) ==
  LET s == node[r.node]
      log == IF s.role = "LEADER" THEN s.log ELSE SubSeq(s.log, 1, s.durable)
  IN /\ s.epoch = r.epoch
     /\ s.role = r.role
     /\ s.durable = r.durable
     /\ Len(log) = Length(r)
     /\ Fits(r, log)
     /\ IdAt(log, r.first - 1)[1] = r.base
     /\ s.role = "LEADER" => s.commit = r.commit /\ s.voters = r.voters
     /\ r.confirmed <= ApplyPoint(r.node)
     /\ r.applied <= ApplyPoint(r.node)

\* The next entry of a log on its way to what the record shows
NextEntry(r) == LET k == Len(node[r.node].log) + 1 IN
            IF k < r.first \/ k > Length(r) THEN Entry(0, "UNKNOWN", 0) ELSE r.log[k - r.first + 1]
Grows(r) == Len(node[r.node].log) < Length(r)

LeaderSteps(r) ==
  LET n == r.node
      next == NextEntry(r)
  IN \/ next.kind \in TxnKinds /\ Write(n, next.kind, next.value)
     \/ next.kind = "CONFIRM" /\ Confirm(n)
     \/ next.kind = "ROLLBACK" /\ Rollback(n, next.value)
     \/ next.kind = "BARRIER" /\ Prepare(n)
     \/ Commit(n, r.commit)
     \/ CommitReconfiguration(n)

FollowerSteps(r) ==
  LET n == r.node
      s == node[n]
      epochs == Max(1, s.epoch) .. Min(r.epoch, Len(era))
  IN \/ \E e \in epochs : Fence(n, e) \/ (r.role # "LEADER" /\ Follow(n, e))
     \/ Grows(r) /\ \E e \in epochs : AddDurableEntry(n, e)
     \/ s.epoch \in epochs /\ Truncate(n, s.epoch, HeadId(s.log)[1])
     \/ \E o \in {r.first - 1, r.durable} : \E e \in epochs : Snapshot(n, e, o)
     \/ r.role = "LEADER" /\ \E known \in {s.commit, r.commit} : BecomeLeader(n, known)
     \/ r.role = "FENCED" /\ StepDown(n)

NodeSteps(r) ==
  LET s == node[r.node]
  IN \/ s.role = "LEADER" /\ LeaderSteps(r)
     \/ (s.role # "LEADER" \/ r.role # "LEADER" \/ s.epoch # r.epoch) /\ FollowerSteps(r)
     \/ \E k \in {r.durable, Len(s.log)} : Flush(r.node, k)

Restart(r) ==
  LET s == node[r.node]
      u == IF r.confirmed \in s.confirmed .. ApplyPoint(r.node) THEN r.confirmed ELSE s.confirmed
  IN \E e \in Durably(s) : Crash(r.node, e, u)

-----------------------------------------------------------------------------
\* Tell how far we are. Worker-local registers: TLC must run with one worker.
Reached(k) == IF k > TLCGet(1) THEN TLCSet(1, k) /\ PrintT(<<"matched", k>>) ELSE TRUE
Matched == matched' = matched + 1 /\ Reached(matched + 1)
OnTheWay(r) == matched' = matched /\ (node'[r.node].role = "LEADER" => Fits(r, node'[r.node].log))

MatchNode(r) ==
  \/ ~r.restarted /\ Shown(r) /\ UNCHANGED vars /\ Matched
  \/ NodeSteps(r) /\ (IF ~r.restarted /\ Shown(r)' THEN Matched ELSE OnTheWay(r))
  \/ r.restarted /\ Restart(r) /\ Shown(r)' /\ Matched

MatchMetadata(r) == OperatorStep /\ metadata' = [r.metadata EXCEPT !.formed = metadata'.formed] /\ Matched

\* P7, P8, P6: what a client may be told. Without effect on the log, but an answered async transaction is remembered.
MayAnswer(r) ==
  LET s == node[r.node]
  IN /\ s.role = "LEADER"
     /\ r.id[2] <= Len(s.log) /\ IdAt(s.log, r.id[2]) = r.id /\ IsTxn(s.log[r.id[2]])
     /\ CASE r.result = "COMMITTED" -> r.id[2] <= s.commit /\ ~Doomed(s.log, r.id[2])
          [] r.result = "ABORTED" -> r.id[2] <= s.commit /\ Doomed(s.log, r.id[2])
          \* a repeat: its pair was rolled back with an earlier copy (decision 107). Pairs are not modelled, only that.
          [] r.result = "RETIRED" ->
               r.id[2] <= s.commit /\ \E o \in 1..(r.id[2] - 1) : IsTxn(s.log[o]) /\ Doomed(s.log, o)
          [] r.result = "ACKNOWLEDGED" -> MayAnswerAsync(r.node, r.id[2])
MatchAnswer(r) ==
  /\ MayAnswer(r)
  /\ answered' = IF r.result = "ACKNOWLEDGED" THEN answered \cup {r.id} ELSE answered
  /\ UNCHANGED <<metadata, era, node, decided>>
  /\ Matched

TraceInit == ColdInit(Ensemble) /\ matched = 0 /\ TLCSet(1, 0)

TraceNext ==
  /\ matched < Len(Trace)
  /\ \E r \in {Trace[matched + 1]} :  \* bound, not defined: r' is r
       CASE r.kind = "metadata" -> MatchMetadata(r)
         [] r.kind = "node" -> MatchNode(r)
         [] r.kind = "answer" -> MatchAnswer(r)

\* To see the state before a record which nothing allows: TLC shows how it came there
Unmatched == matched < Len(Trace)
===============================================================================
