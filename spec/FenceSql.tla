------------------------------- MODULE FenceSql ------------------------------
(***************************************************************************)
(* L2, handoffs and counters: claim, acknowledge, both in one transaction  *)
(* (settle), recover, extend a lease, ask to cancel. See Sql.tla.          *)
(*                                                                         *)
(* Of counters, a transaction waits for one acquisition only; any further  *)
(* one it takes if nobody holds it (C4).                                   *)
(***************************************************************************)
EXTENDS Sql

(* A caller may show any handoff that was ever given out. *)
Acks == {"complete"} \cup (Features \cap {"return_to_queue"})
        \cup (IF On("lease") THEN {"extend_lease"} ELSE {})
BeginAcknowledge(c, j, n, kind) ==
  /\ n <= job[j].handoffs
  /\ Begin(c, "acknowledge", [Idle EXCEPT !.at = "lock job", !.job = j,
                                          !.n = n, !.kind = kind])
BeginSettle(c, j, n, kind) ==
  /\ n <= job[j].handoffs
  /\ Begin(c, "settle", [Idle EXCEPT !.at = "lock job", !.job = j, !.n = n,
                                     !.kind = kind, !.then = "candidate"])
BeginClaim(c) ==
  /\ Begin(c, "claim", [Idle EXCEPT !.at = "candidate"])
BeginClaimJob(c, j) ==
  /\ Begin(c, "claim_job", [Idle EXCEPT !.at = "lock job", !.job = j])
(* SELECT a handoff whose lease is over, without a lock: the UPDATE is     *)
(* fenced on what was read here.                                           *)
BeginRecover(c, j) ==
  /\ Status(j) = "handed_off" /\ LeaseOver(j)
  /\ Begin(c, "recover", [Idle EXCEPT !.at = "lock job", !.job = j,
                                      !.n = job[j].handoff, !.kind = "recover"])
BeginRequestCancel(c, j) ==
  /\ Status(j) = "handed_off"
  /\ Begin(c, "request_cancel", [Idle EXCEPT !.at = "mark", !.job = j])

(* SELECT ... FOR UPDATE of the named job: waits, then reads. *)
LockJob(c) ==
  LET t == tx[c] IN
  /\ At(c, "lock job") /\ MayLock(c, JobRow(t.job))
  /\ Take(c, JobRow(t.job))
  /\ Go(c, [t EXCEPT !.seen = job[t.job],
                     !.at = IF t.op # "claim_job" THEN "update"
                            ELSE IF Candidate(c, t.job) THEN "lock counter"
                            ELSE "commit"])

(* The row of the table that the store picks, from the row as it read it.  *)
Chosen(kind, seen, j) ==
  CASE kind \in {"complete", "extend_lease"} -> kind
    [] kind = "return_to_queue" ->
         IF seen.cancel THEN "return_to_queue abort" ELSE "return_to_queue"
    [] kind = "recover" ->
         IF seen.attempts + 1 > RetriesOf[j] THEN "recover exhaust"
         ELSE IF seen.cancel THEN "recover abort" ELSE "recover retry"

(* UPDATE job SET ... WHERE id, status and the fence. *)
Fence(t, row) ==
  /\ row.status = "handed_off"
  /\ row.handoff = t.n
  /\ t.kind = "recover" => row.lease = "over"
UpdateJob(c) ==
  LET t == tx[c]  w == Write(Change(t.job, Chosen(t.kind, t.seen, t.job), t.n)) IN
  /\ At(c, "update")
  /\ IF ~Fence(t, job[t.job])
     THEN Go(c, [t EXCEPT !.at = t.then])
     ELSE IF t.kind = "extend_lease"
     THEN Go(c, [t EXCEPT !.at = t.then, !.writes = Append(@, w)])
     ELSE Go(c, [t EXCEPT !.at = "release", !.writes = Append(@, w)])
  /\ UNCHANGED lock

(* UPDATE counter SET active = active - 1 WHERE key: waits for the row. *)
ReleaseSlot(c) ==
  LET t == tx[c]  k == t.seen.ckey IN
  /\ At(c, "release") /\ MayLock(c, CounterRow(k))
  /\ Take(c, CounterRow(k))
  /\ Go(c, [t EXCEPT !.at = t.then,
                     !.writes[1].counter = ActiveIs(k, counter[k].active - 1)])

TakeCandidate(c, j) ==
  /\ At(c, "candidate") /\ Candidate(c, j)
  /\ Take(c, JobRow(j))
  /\ Go(c, [tx[c] EXCEPT !.job = j, !.seen = OwnRow(c, j), !.at = "lock counter"])
NoCandidate(c) ==
  /\ At(c, "candidate")
  /\ Go(c, [tx[c] EXCEPT !.at = "commit"])
  /\ UNCHANGED lock

(* SELECT counter FOR UPDATE: the first one waits; SKIP LOCKED once one is *)
(* held, and the job is left to another transaction.                       *)
LockCounter(c) ==
  LET k == tx[c].seen.ckey IN
  /\ At(c, "lock counter") /\ MayLock(c, CounterRow(k))
  /\ Take(c, CounterRow(k))
  /\ Go(c, [tx[c] EXCEPT !.active = OwnActive(c, k), !.at = "hand off"])
HoldsCounter(c) == \E k \in ExplicitKeys : lock[CounterRow(k)] = c
SkipCounter(c) ==
  /\ At(c, "lock counter") /\ ~MayLock(c, CounterRow(tx[c].seen.ckey))
  /\ HoldsCounter(c)
  /\ Go(c, [tx[c] EXCEPT !.at = "commit"])
  /\ UNCHANGED lock

(* UPDATE job SET ... WHERE status = 'queued'; UPDATE counter + 1. *)
HandOff(c) ==
  LET t == tx[c]  k == t.seen.ckey
      w == [Write(Change(t.job, "claim", 0)) EXCEPT
              !.counter = ActiveIs(k, t.active + 1)] IN
  /\ At(c, "hand off")
  /\ IF t.active < counter[k].cap /\ OwnRow(c, t.job).status = "queued"
     THEN Go(c, [t EXCEPT !.at = "commit", !.writes = Append(@, w)])
     ELSE Go(c, [t EXCEPT !.at = "commit"])
  /\ UNCHANGED lock

(* UPDATE job SET cancel_requested WHERE id AND status = 'handed_off'. *)
MarkCancel(c) ==
  LET t == tx[c]  w == Write(Change(t.job, "request_cancel", 0)) IN
  /\ At(c, "mark") /\ MayLock(c, JobRow(t.job))
  /\ Take(c, JobRow(t.job))
  /\ IF Status(t.job) = "handed_off"
     THEN Go(c, [t EXCEPT !.at = "commit", !.writes = Append(@, w)])
     ELSE Go(c, [t EXCEPT !.at = "commit"])

(* Time passes for a lease, whoever holds the row: it is not a write. *)
LeaseLapses(j) ==
  /\ committing = Nobody
  /\ Lapse(j)
  /\ UNCHANGED sqlVars

SqlNext ==
  \/ Done
  \/ \E c \in Clients :
       \/ BeginClaim(c)
       \/ LockJob(c)
       \/ UpdateJob(c)
       \/ ReleaseSlot(c)
       \/ NoCandidate(c)
       \/ LockCounter(c)
       \/ SkipCounter(c)
       \/ HandOff(c)
       \/ MarkCancel(c)
       \/ Commit(c)
       \/ Die(c)
  \/ \E c \in Clients, j \in Ids :
       \/ BeginClaimJob(c, j)
       \/ BeginRecover(c, j)
       \/ BeginRequestCancel(c, j)
       \/ TakeCandidate(c, j)
  \/ \E c \in Clients, j \in Ids, n \in 1..Bound, kind \in Acks :
       \/ BeginAcknowledge(c, j, n, kind)
       \/ BeginSettle(c, j, n, kind)
  \/ \E j \in Ids : LeaseLapses(j)

StoredSpec == StoredInit /\ [][SqlNext]_allVars
==============================================================================
