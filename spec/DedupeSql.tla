------------------------------ MODULE DedupeSql ------------------------------
(***************************************************************************)
(* L2, enqueues that may find their job: dedupe while queued and           *)
(* idempotency keys, alone and in batches, against claims and returns.     *)
(* See Sql.tla.                                                            *)
(*                                                                         *)
(* Identities of a batch are locked first, in one order; then each request *)
(* looks, and inserts if it found nothing (E4 to E6). A request sees what  *)
(* its own transaction inserted, so that two of them do not block, and do  *)
(* not double, each other.                                                 *)
(***************************************************************************)
EXTENDS Sql

(* What a request locks: its idempotency key, else its dedupe identity (E8). *)
LockOf(j) == IF IdempotencyKeyOf[j] # None THEN {IdempotencyKeyOf[j]}
             ELSE IF IdentityOf[j] # None THEN {IdentityOf[j]} ELSE {}
LocksOf(batch) == UNION {LockOf(batch[i]) : i \in 1..Len(batch)}
Rank(i) == CASE i = "other work" -> 1 [] i = "request" -> 2 [] i = "work" -> 3

BeginEnqueue(c, j) ==
  /\ Fresh(j)
  /\ Begin(c, "enqueue", [Idle EXCEPT !.at = "lock identities", !.batch = <<j>>])
BeginEnqueueMany(c, i, j) ==
  /\ i # j /\ Unused(i) /\ Unused(j)
  /\ Begin(c, "enqueue_many", [Idle EXCEPT !.at = "lock identities",
                                           !.batch = <<i, j>>])
BeginClaim(c) ==
  /\ Begin(c, "claim", [Idle EXCEPT !.at = "candidate"])
BeginReturn(c, j) ==
  /\ Status(j) = "handed_off"
  /\ Begin(c, "return_to_queue", [Idle EXCEPT !.at = "lock job", !.job = j,
                                              !.n = job[j].handoff])

(* The next identity in the one order; waits for whoever holds it. *)
LockIdentity(c) ==
  LET t == tx[c]
      missing == {i \in LocksOf(t.batch) : lock[Identity(i)] # c}
      next == CHOOSE i \in missing : \A h \in missing : Rank(i) <= Rank(h) IN
  /\ At(c, "lock identities")
  /\ IF missing = {}
     THEN Go(c, [t EXCEPT !.at = "look"]) /\ UNCHANGED lock
     ELSE /\ MayLock(c, Identity(next))
          /\ Take(c, Identity(next))
          /\ Go(c, t)

(* SELECT the idempotency row, or the queued twin. *)
Found(c, j) ==
  IF IdempotencyKeyOf[j] # None
  THEN OwnFirst(tx[c].writes, first)[IdempotencyKeyOf[j]] # NoJob
  ELSE /\ IdentityOf[j] # None
       /\ \E i \in Ids : LET row == OwnRow(c, i)
                         IN IdentityOf[i] = IdentityOf[j] /\ row.status = "queued"
Rest(t) == [t EXCEPT !.batch = Tail(@),
                     !.at = IF Len(t.batch) = 1 THEN "commit" ELSE "look"]
Look(c) ==
  LET t == tx[c] IN
  /\ At(c, "look")
  /\ IF Found(c, Head(t.batch)) THEN Go(c, Rest(t))
     ELSE Go(c, [t EXCEPT !.at = "insert"])
  /\ UNCHANGED lock

(* INSERT the job, and the idempotency row with it. *)
InsertJob(c) ==
  LET t == tx[c]  j == Head(t.batch)  i == IdempotencyKeyOf[j]
      w == [Write(Change(j, "insert", 0)) EXCEPT
              !.first = IF i = None THEN Unchanged ELSE <<i, j>>] IN
  /\ At(c, "insert")
  /\ Go(c, [Rest(t) EXCEPT !.writes = Append(@, w)])
  /\ UNCHANGED lock

TakeCandidate(c, j) ==
  /\ At(c, "candidate") /\ Candidate(c, j)
  /\ Take(c, JobRow(j))
  /\ Go(c, [tx[c] EXCEPT !.job = j, !.at = "commit",
                         !.writes = <<Write(Change(j, "claim", 0))>>])
NoCandidate(c) ==
  /\ At(c, "candidate")
  /\ Go(c, [tx[c] EXCEPT !.at = "commit"])
  /\ UNCHANGED lock

ReturnJob(c) ==
  LET t == tx[c]  row == job[t.job] IN
  /\ At(c, "lock job") /\ MayLock(c, JobRow(t.job))
  /\ Take(c, JobRow(t.job))
  /\ IF row.status = "handed_off" /\ row.handoff = t.n
     THEN Go(c, [t EXCEPT !.at = "commit",
                   !.writes = <<Write(Change(t.job, "return_to_queue", t.n))>>])
     ELSE Go(c, [t EXCEPT !.at = "commit"])

SqlNext ==
  \/ Done
  \/ \E c \in Clients :
       \/ BeginClaim(c)
       \/ LockIdentity(c)
       \/ Look(c)
       \/ InsertJob(c)
       \/ NoCandidate(c)
       \/ ReturnJob(c)
       \/ Commit(c)
       \/ Die(c)
  \/ \E c \in Clients, j \in Ids :
       \/ BeginEnqueue(c, j)
       \/ BeginReturn(c, j)
       \/ TakeCandidate(c, j)
  \/ \E c \in Clients, i, j \in Ids : BeginEnqueueMany(c, i, j)

SqlSpec == SqlInit /\ [][SqlNext]_allVars
==============================================================================
