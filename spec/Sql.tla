--------------------------------- MODULE Sql ---------------------------------
(***************************************************************************)
(* L2, what its three protocols share: transactions made of statements,    *)
(* run by several clients at once under READ COMMITTED.                    *)
(*                                                                         *)
(* The variables of JobQueue are the committed rows. A transaction locks   *)
(* rows, notes what it will write, and shows it at its COMMIT; then every  *)
(* change of committed rows must be a step of JobQueue: that is the        *)
(* property Refines. A row that another holds makes the next statement     *)
(* wait (it is not enabled), and when all wait, TLC reports a deadlock.    *)
(*                                                                         *)
(* The one lock order (C4): dedupe and idempotency identities, schedule    *)
(* keys, job rows, counters.                                               *)
(*                                                                         *)
(* A COMMIT of several steps is shown step by step, in the order in which  *)
(* they were written, while nobody else may move: one transaction is a run *)
(* of L1 steps that nobody can come between.                               *)
(***************************************************************************)
EXTENDS MC, Sequences

CONSTANTS Clients, Nobody,
          Operations,  \* which transactions take part
          HandedOff,   \* ids that are handed off to begin with
          Deaths       \* may a client die in the middle of a transaction?

VARIABLES tx,         \* the transaction that each client is in
          lock,       \* who holds which row
          committing  \* whose COMMIT is being shown
sqlVars == <<tx, lock, committing>>
allVars == <<vars, sqlVars>>

JobRow(j)     == <<"job", j>>
CounterRow(k) == <<"counter", k>>
KeyRow(s)     == <<"schedule key", s>>
Identity(i)   == <<"identity", i>>
Rowset == {JobRow(j) : j \in Ids} \cup {CounterRow(k) : k \in ExplicitKeys}
          \cup {KeyRow(s) : s \in ScheduleKeys}
          \cup {Identity(i) : i \in Identities \cup IdempotencyKeys}

(* job, n, kind, skey, batch: what the caller named; then: the place   *)
(* after this part; seen, owner, active: what was read; writes: what COMMIT *)
(* will show.                                                               *)
Idle == [op |-> "none", at |-> "idle", then |-> "commit",
         job |-> NoJob, n |-> 0, kind |-> "none", skey |-> None, batch |-> <<>>,
         seen |-> NoRow, owner |-> [owner |-> NoJob, high |-> 0], active |-> 0,
         writes |-> <<>>]

Quiet == /\ tx = [c \in Clients |-> Idle]
         /\ lock = [row \in Rowset |-> Nobody]
         /\ committing = Nobody

(* From an empty queue without a policy (policies are no matter of locks), *)
SqlInit == /\ Init /\ Quiet
           /\ \A q \in Queues : queue[q].policy = 0

(* or from one in which each job is queued or handed off already: what an  *)
(* enqueue and a claim would have made of it, without their steps.         *)
Queued(j, order) == [NoRow EXCEPT !.status = "queued", !.due = TRUE,
                                  !.ckey = KeyOf[j], !.order = order]
Claimed(row) == [row EXCEPT !.status = "handed_off", !.due = FALSE,
                   !.handoffs = @ + 1, !.handoff = row.handoffs + 1,
                   !.writer = row.handoffs + 1, !.ended = "none",
                   !.lease = IF On("lease") THEN "runs" ELSE "none"]
StoredInit ==
  /\ job = [j \in Ids |-> IF j \in HandedOff THEN Claimed(Queued(j, 0))
                                             ELSE Queued(j, 0)]
  /\ \E cap \in Caps : counter = [k \in Keys |->
       [cap |-> IF k \in Queues THEN 0 ELSE cap,
        active |-> Cardinality({j \in HandedOff : KeyOf[j] = k})]]
  /\ queue = [q \in Queues |-> [policy |-> 0, paused |-> FALSE]]
  /\ skey = [s \in ScheduleKeys |-> [owner |-> NoJob, high |-> 0]]
  /\ first = [i \in IdempotencyKeys |-> NoJob]
  /\ Quiet

-----------------------------------------------------------------------------
(* Writes. A write is one L1 step: job rows, and perhaps one counter, one  *)
(* schedule key, one idempotency key, each with its new value.             *)

Unchanged == <<>>
Change(j, what, n) == <<[job |-> j, what |-> what, n |-> n]>>
Write(changes) == [jobs |-> changes, counter |-> Unchanged, skey |-> Unchanged,
                   first |-> Unchanged]

(* What a statement does to a job's row, as it stands at the COMMIT: the   *)
(* row is locked, but time passes for it all the same (Lapse).             *)
Back(row) == [row EXCEPT !.status = "queued", !.handoff = 0, !.lease = "none"]
LeftAs(row, status, n, kind) ==
  [Back(row) EXCEPT !.status = status, !.writer = n, !.ended = kind]
Written(what, n, row, j) ==
  CASE what = "insert" -> Queued(j, n)
    [] what = "claim" -> Claimed(row)
    [] what = "complete" -> LeftAs(row, "completed", n, "complete")
    [] what = "return_to_queue" ->
         [LeftAs(row, "queued", n, "return_to_queue") EXCEPT !.due = TRUE]
    [] what = "return_to_queue abort" ->
         LeftAs(row, "cancelled", n, "return_to_queue")
    [] what = "recover retry" ->
         [LeftAs(row, "queued", n, "recover") EXCEPT !.due = TRUE,
                                                     !.attempts = @ + 1]
    [] what = "recover abort" ->
         [LeftAs(row, "cancelled", n, "recover") EXCEPT !.attempts = @ + 1]
    [] what = "recover exhaust" ->
         [LeftAs(row, "failed", n, "recover") EXCEPT !.attempts = @ + 1]
    [] what = "extend_lease" -> [row EXCEPT !.lease = "runs", !.writer = n]
    [] what = "cancel" -> [row EXCEPT !.status = "cancelled", !.due = FALSE]
    [] what = "request_cancel" -> [row EXCEPT !.cancel = TRUE]
    [] what = "wake" -> [row EXCEPT !.due = TRUE]

RECURSIVE Applied(_, _)
Applied(changes, rows) ==
  IF changes = <<>> THEN rows
  ELSE LET w == Head(changes)
       IN Applied(Tail(changes),
                  [rows EXCEPT ![w.job] = Written(w.what, w.n, @, w.job)])
Set(table, change) ==
  IF change = Unchanged THEN table ELSE [table EXCEPT ![change[1]] = change[2]]

(* A transaction reads its own writes. *)
RECURSIVE OwnJobs(_, _)
OwnJobs(writes, rows) ==
  IF writes = <<>> THEN rows
  ELSE OwnJobs(Tail(writes), Applied(Head(writes).jobs, rows))
OwnRow(c, j) == OwnJobs(tx[c].writes, job)[j]
RECURSIVE OwnFirst(_, _)
OwnFirst(writes, rows) ==
  IF writes = <<>> THEN rows
  ELSE OwnFirst(Tail(writes), Set(rows, Head(writes).first))
RECURSIVE OwnCounters(_, _)
OwnCounters(writes, rows) ==
  IF writes = <<>> THEN rows
  ELSE OwnCounters(Tail(writes), Set(rows, Head(writes).counter))
OwnActive(c, k) == OwnCounters(tx[c].writes, counter)[k].active
ActiveIs(k, active) == <<k, [counter[k] EXCEPT !.active = active]>>

-----------------------------------------------------------------------------
(* Beginning, locking, ending. *)

At(c, place) == committing = Nobody /\ tx[c].at = place
MayLock(c, row) == lock[row] \in {Nobody, c}
Take(c, row) == lock' = [lock EXCEPT ![row] = c]

(* Every statement: only this client's transaction changes, no row does. *)
Go(c, t) == /\ tx' = [tx EXCEPT ![c] = t]
            /\ UNCHANGED <<vars, committing>>

Begin(c, op, t) ==
  /\ committing = Nobody /\ tx[c] = Idle /\ op \in Operations
  /\ Go(c, [t EXCEPT !.op = op])
  /\ UNCHANGED lock

(* An enqueue makes an id that nobody else has; which one is no matter. *)
Members(batch) == {batch[i] : i \in 1..Len(batch)}
Unused(j) == /\ Status(j) = "absent"
             /\ \A c \in Clients :
                  /\ tx[c].job # j /\ j \notin Members(tx[c].batch)
                  /\ \A i \in 1..Len(tx[c].writes) :
                       tx[c].writes[i].jobs[1].job # j
Fresh(j) == Unused(j) /\ \A i \in Ids : i < j => ~Unused(i)

Finish(c) ==
  /\ tx' = [tx EXCEPT ![c] = Idle]
  /\ lock' = [row \in Rowset |-> IF lock[row] = c THEN Nobody ELSE lock[row]]
  /\ committing' = Nobody

(* COMMIT: show the next step; with the last one, the locks go. *)
Commit(c) ==
  LET w == Head(tx[c].writes) IN
  /\ tx[c].at = "commit" /\ committing \in {Nobody, c}
  /\ IF tx[c].writes = <<>> THEN UNCHANGED vars
     ELSE /\ job' = Applied(w.jobs, job)
          /\ counter' = Set(counter, w.counter)
          /\ skey' = Set(skey, w.skey)
          /\ first' = Set(first, w.first)
          /\ UNCHANGED queue
  /\ IF Len(tx[c].writes) <= 1 THEN Finish(c)
     ELSE /\ tx' = [tx EXCEPT ![c].writes = Tail(@)]
          /\ committing' = c
          /\ UNCHANGED lock

(* The client dies, or its connection does: nothing was written. *)
Die(c) ==
  /\ Deaths /\ committing = Nobody /\ tx[c] # Idle
  /\ Finish(c)
  /\ UNCHANGED vars

(* SELECT ... FOR UPDATE SKIP LOCKED of a job that can be claimed. *)
Candidate(c, j) ==
  LET row == OwnRow(c, j) IN
  /\ row.status = "queued" /\ row.due /\ row.handoffs < Bound
  /\ MayLock(c, JobRow(j))

-----------------------------------------------------------------------------
(* Nothing more to do: no deadlock. *)
Done == /\ committing = Nobody
        /\ \A c \in Clients : tx[c] = Idle
        /\ UNCHANGED allVars

(* Every change of committed rows is a step of the queue. (That of those *)
(* that change none is said first, for speed.)                           *)
Refines == [][UNCHANGED vars \/ Next]_vars

(* Locks are held in transactions only, and what is written is locked. *)
LocksHeld ==
  /\ \A row \in Rowset : lock[row] # Nobody => tx[lock[row]] # Idle
  /\ \A c \in Clients : \A i \in 1..Len(tx[c].writes) :
       LET w == tx[c].writes[i] IN
         /\ \A h \in 1..Len(w.jobs) :
              w.jobs[h].what = "insert" \/ lock[JobRow(w.jobs[h].job)] = c
         /\ w.counter # Unchanged => lock[CounterRow(w.counter[1])] = c
         /\ w.skey # Unchanged => lock[KeyRow(w.skey[1])] = c
         /\ w.first # Unchanged => lock[Identity(w.first[1])] = c
==============================================================================
