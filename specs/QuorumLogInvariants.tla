------------------------- MODULE QuorumLogInvariants -------------------------
(***************************************************************************)
(* The invariants of quorum-log.md which the model can state, under their  *)
(* numbers; I4, I12 and what I6 and I8 say of the moment of an append      *)
(* speak of steps.  Every log is a prefix of what the leader of its last   *)
(* epoch wrote (I1), so the invariants of log contents are stated of these *)
(* alone, and hold of lost entries too.                                    *)
(***************************************************************************)
EXTENDS QuorumLog

LogOf(n) == node[n].log
LastEpoch(s) == s[Len(s)].epoch

TypeOK == \A n \in Nodes : node[n] \in NodeState

\* (epoch, offset) is one payload, ever, on any node; and what stands before it is the same, too
I1 == /\ \A n \in Nodes : LogOf(n) # <<>> => IsPrefix(LogOf(n), era[LastEpoch(LogOf(n))].log)
      /\ \A e \in Epochs : LET s == era[e].log
                               before == {i \in 1 .. Len(s) : s[i].epoch < e}
                           IN before # {} => IsPrefix(SubSeq(s, 1, MaxOf(before)), era[s[MaxOf(before)].epoch].log)

\* At most one node appends in an epoch, and it begins once
I2 == \A e \in Epochs : /\ Cardinality(era[e].leads) <= 1
                        /\ Cardinality({i \in 1 .. Len(era[e].log) : era[e].log[i] = Entry(e, "BARRIER", 0)}) <= 1

\* An epoch begins with its barrier; epochs do not fall along a log
I3 == \A e \in Epochs : LET s == era[e].log IN \A i \in 1 .. Len(s) :
        IF i > 1 /\ s[i - 1].epoch = s[i].epoch THEN s[i].kind # "BARRIER"
        ELSE s[i].kind = "BARRIER" /\ (i > 1 => s[i - 1].epoch < s[i].epoch)

\* What a node knows committed is committed; a later leader has all of it; nothing known is ever cut off
I5 == /\ \A n \in Nodes : LET s == node[n] IN
           /\ s.confirmed <= s.commit /\ s.confirmed <= s.durable
           /\ s.commit <= Len(s.log) /\ IsPrefix(SubSeq(s.log, 1, s.commit), decided)
      /\ decided # <<>> => \A n \in Nodes :
           node[n].role = "LEADER" /\ node[n].epoch >= LastEpoch(decided) => IsPrefix(decided, LogOf(n))

Confirms(s) == {k \in 1 .. Len(s) : s[k].kind = "CONFIRM"}
Rollbacks(s) == {k \in 1 .. Len(s) : s[k].kind = "ROLLBACK"}

\* CONFIRM(u)@k is of its own epoch, rises, and never covers CONFIRMs and ROLLBACKs alone
I6 == \A e \in Epochs : LET s == era[e].log IN \A k \in Confirms(s) :
        LET u == s[k].value
            u0 == MaxOf({0} \cup {s[i].value : i \in {x \in Confirms(s) : x < k /\ s[x].epoch = s[k].epoch}})
        IN u < k /\ s[u].epoch = s[k].epoch /\ u > u0 /\ \E i \in u0 + 1 .. u : IsTxn(s[i]) \/ s[i].kind = "BARRIER"

\* Every CONFIRM ever written, even if it was lost, tells the truth
I7 == \A e \in Epochs : LET s == era[e].log IN \A k \in Confirms(s) : IsPrefix(SubSeq(s, 1, s[k].value), decided)

\* ROLLBACK(f)@j cancels a sync transaction of its own epoch; ranges are disjoint or nested
I8 == \A e \in Epochs : LET s == era[e].log IN \A j \in Rollbacks(s) :
        LET f == s[j].value
        IN /\ f < j /\ s[f].epoch = s[j].epoch /\ s[f].kind = "SYNC"
           /\ \A i \in Rollbacks(s) : i < j => s[i].value > f \/ i < f

\* No commit and no CONFIRM, and so no snapshot, stands inside a doomed range
I9 == /\ \A n \in Nodes : ~Inside(LogOf(n), node[n].commit) /\ ~Inside(LogOf(n), node[n].confirmed)
      /\ \A e \in Epochs : \A k \in Confirms(era[e].log) : ~Inside(era[e].log, era[e].log[k].value)
      /\ ~Inside(decided, Len(decided))

\* What is applied anywhere is what the committed log comes to: a prefix of it which ends outside every doomed range,
\* so that no transaction in it is doomed from behind. Any two nodes are then prefix-comparable.
I10 == \A n \in Nodes : LET p == ApplyPoint(n) IN
         p <= Len(LogOf(n)) /\ IsPrefix(SubSeq(LogOf(n), 1, p), decided) /\ ~Inside(decided, p)

\* A follower applies what is confirmed, a leader, or one which led in this run, what is committed and durable
I11 == \A n \in Nodes : LET s == node[n] IN
         s.commit # s.confirmed => ApplyPoint(n) <= s.commit /\ ApplyPoint(n) <= s.durable

\* P10, as answered from the first k entries of s
Resolve(s, k, id) ==
  IF id[2] <= k /\ s[id[2]].epoch = id[1] THEN IF Doomed(SubSeq(s, 1, k), id[2]) THEN "ABORTED" ELSE "COMMITTED"
  ELSE IF id[2] <= k \/ \E i \in 1 .. k : i < id[2] /\ s[i].epoch > id[1] THEN "ABORTED"
  ELSE "PENDING"
Truth(id) == Resolve(decided, Len(decided), id)
AnswersFrom(n) == IF Mutant = "resolve without commit" THEN Len(LogOf(n)) ELSE ApplyPoint(n)
AnswerOf(n, k, id) ==
  IF Mutant = "ABORTED before commit" /\ node[n].role = "LEADER" /\ Holds(LogOf(n), id) /\ Doomed(LogOf(n), id[2])
  THEN "ABORTED"
  ELSE Resolve(LogOf(n), k, id)

\* Ids of all transactions ever written
TxnIds == UNION {{<<e, i>> : i \in {x \in 1 .. Len(era[e].log) : era[e].log[x].epoch = e /\ IsTxn(era[e].log[x])}} : e \in Epochs}

\* Whoever is asked says what the committed log says, or that it is pending; I12 keeps that answer for ever. A leader
\* whose barrier is committed knows the fate of everything before it.
I13 == \A id \in TxnIds : LET truth == Truth(id) IN \A n \in Nodes :
         /\ AnswerOf(n, AnswersFrom(n), id) \in {"PENDING", truth}
         /\ node[n].role = "LEADER" /\ id[1] < node[n].epoch /\ BarrierOf(LogOf(n), node[n].epoch) \in 1 .. node[n].commit
              => Resolve(LogOf(n), node[n].commit, id) # "PENDING"

\* An acknowledged async transaction is never rolled back; if it is lost, so is all of its epoch behind it
I16 == \A id \in answered :
         /\ ~Inside(era[id[1]].log, id[2])
         /\ Truth(id) = "ABORTED" => \A i \in id[2] .. Len(decided) : decided[i].epoch # id[1]

\* Every fence quorum of the next election holds all that was ever committed; leaders count what the metadata say
I22 == LET ensemble == Final(metadata)
           without == {n \in ensemble : ~IsPrefix(decided, SubSeq(LogOf(n), 1, node[n].durable))}
       IN /\ ~Majority(Cardinality(without), Cardinality(ensemble))
          /\ \A n \in Nodes : node[n].role = "LEADER" =>
               LET e == era[node[n].epoch]
               IN node[n].voters = e.final \/ (e.kind = "RECONFIGURATION" /\ node[n].voters = e.ensemble)

\* The metadata's epoch never falls
I27 == metadata.epoch = Len(era)

-----------------------------------------------------------------------------
(* Steps.                                                                  *)

Leads(n) == node[n].role = "LEADER" /\ node'[n].role = "LEADER"

\* The commit index moves only as P2 says, recounted from the logs themselves rather than from the cursors
CommitRecounted(n) ==
  LET s == node'[n]
      N == s.commit
      has == {v \in Voting(s) : N <= node[v].durable /\ IsPrefix(SubSeq(s.log, 1, N), node[v].log)}
  IN /\ N > node[n].commit
     /\ s.log[N].epoch = s.epoch /\ ~Inside(s.log, N)
     /\ Majority(Cardinality(has), Cardinality(s.voters))
I4 == [][\A n \in Nodes : Leads(n) /\ node[n].commit # node'[n].commit => CommitRecounted(n)]_vars

\* When a leader switches to the final ensemble, those it knows to hold what is committed meet every fence quorum of it
Holding(n) == LET s == node'[n] IN {v \in s.voters : IF v = n THEN s.durable >= s.commit ELSE s.cursor[v] >= s.commit}
Switches(n) == Leads(n) /\ node[n].voters # node'[n].voters
I22Switch == [][\A n \in Nodes : Switches(n) =>
                  LET voters == node'[n].voters IN ~Majority(Cardinality(voters \ Holding(n)), Cardinality(voters))]_vars
\* P11 says more: that the commit index, counted again, is not lower. That is false (literal/recomputed-commit.cfg).
RecomputedCommit == [][\A n \in Nodes : Switches(n) => Majority(Cardinality(Holding(n)), Cardinality(node'[n].voters))]_vars

\* What was committed stays; what was answered OK or ABORTED stays so, for every id
Kept == /\ IsPrefix(decided, decided')
        /\ ~Inside(decided', Len(decided))
        /\ \A id \in TxnIds : Truth(id) \in {"PENDING", Resolve(decided', Len(decided'), id)}
I12 == [][decided # decided' => Kept]_vars

\* At the moment of the append, f > commit (I8) and u <= commit (I6)
AppendedWell(n) ==
  LET last == node'[n].log[Len(node'[n].log)]
  IN /\ last.kind = "ROLLBACK" => last.value > node[n].commit
     /\ last.kind = "CONFIRM" => last.value <= node[n].commit
I6I8Append == [][\A n \in Nodes : Leads(n) /\ Len(LogOf(n)) # Len(node'[n].log) => AppendedWell(n)]_vars
=============================================================================
