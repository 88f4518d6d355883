----------------------------- MODULE ScheduleSql -----------------------------
(***************************************************************************)
(* L2, schedule keys: replace, cancel and wake by key, against claims,     *)
(* acknowledgements and cancel by id. See Sql.tla.                         *)
(*                                                                         *)
(* K1: the key's row is locked first and the owner read after, then the    *)
(* owner's job is locked and looked at. Whatever may end a job takes its   *)
(* key before the job: the key that a job carries never changes, so it may *)
(* be read without a lock. A claim ends nothing and takes no key.          *)
(***************************************************************************)
EXTENDS Sql

KeyOfJob(j) == ScheduleKeyOf[j]
BeginReplace(c, j) ==
  /\ Fresh(j)
  /\ Begin(c, "replace_scheduled", [Idle EXCEPT !.at = "lock key", !.job = j,
                                                !.skey = KeyOfJob(j)])
BeginCancelScheduled(c, s) ==
  /\ Begin(c, "cancel_scheduled", [Idle EXCEPT !.at = "lock key", !.skey = s])
BeginWake(c, s) ==
  /\ Begin(c, "wake_scheduled", [Idle EXCEPT !.at = "lock key", !.skey = s])
BeginCancel(c, j) ==
  /\ Status(j) # "absent"
  /\ Begin(c, "cancel", [Idle EXCEPT !.at = "lock key", !.job = j,
                                     !.skey = KeyOfJob(j)])
BeginAcknowledge(c, j, n, kind) ==
  /\ n <= job[j].handoffs
  /\ Begin(c, "acknowledge", [Idle EXCEPT !.at = "lock key", !.job = j, !.n = n,
                                          !.kind = kind, !.skey = KeyOfJob(j)])
BeginClaim(c) ==
  /\ Begin(c, "claim", [Idle EXCEPT !.at = "candidate"])

(* INSERT ... ON CONFLICT, or SELECT ... FOR UPDATE, of the key's row. *)
ByKey == {"replace_scheduled", "cancel_scheduled", "wake_scheduled"}
LockKey(c) ==
  LET t == tx[c] IN
  /\ At(c, "lock key") /\ MayLock(c, KeyRow(t.skey))
  /\ Take(c, KeyRow(t.skey))
  /\ Go(c, [t EXCEPT !.at = IF t.op \in ByKey THEN "read owner" ELSE "lock job"])

ReadOwner(c) ==
  LET t == tx[c]  row == skey[t.skey] IN
  /\ At(c, "read owner")
  /\ Go(c, [t EXCEPT !.owner = row,
                     !.at = IF row.owner # NoJob THEN "lock owner"
                            ELSE IF t.op = "replace_scheduled" THEN "insert"
                            ELSE "commit"])
  /\ UNCHANGED lock

(* SELECT ... FOR UPDATE of the owner: a claim that was first is seen. *)
LockOwner(c) ==
  LET t == tx[c]  old == t.owner.owner IN
  /\ At(c, "lock owner") /\ MayLock(c, JobRow(old))
  /\ Take(c, JobRow(old))
  /\ Go(c, [t EXCEPT !.seen = job[old],
                     !.at = IF t.op = "replace_scheduled" THEN "insert"
                            ELSE "change owner"])

(* UPDATE the owner WHERE status = 'queued', INSERT the new job, UPDATE key. *)
InsertNew(c) ==
  LET t == tx[c]
      old == t.owner.owner
      order == t.owner.high + 1
      ended == IF old # NoJob /\ t.seen.status = "queued"
               THEN Change(old, "cancel", 0) ELSE <<>>
      w == [Write(ended \o Change(t.job, "insert", order)) EXCEPT
              !.skey = <<t.skey, [owner |-> t.job, high |-> order]>>] IN
  /\ At(c, "insert")
  /\ Go(c, [t EXCEPT !.at = "commit", !.writes = <<w>>])
  /\ UNCHANGED lock

(* UPDATE the owner as it was seen; for a cancel, also the key's row. *)
ChangeOwner(c) ==
  LET t == tx[c]
      old == t.owner.owner
      mark == IF t.seen.status = "queued" THEN "cancel" ELSE "request_cancel"
      w == IF t.op = "wake_scheduled" THEN Write(Change(old, "wake", 0))
           ELSE [Write(Change(old, mark, 0)) EXCEPT
                   !.skey = <<t.skey, [t.owner EXCEPT !.owner = NoJob]>>] IN
  /\ At(c, "change owner")
  /\ IF t.op = "wake_scheduled" /\ (t.seen.status # "queued" \/ t.seen.due)
     THEN Go(c, [t EXCEPT !.at = "commit"])
     ELSE Go(c, [t EXCEPT !.at = "commit", !.writes = <<w>>])
  /\ UNCHANGED lock

LockJob(c) ==
  LET t == tx[c] IN
  /\ At(c, "lock job") /\ MayLock(c, JobRow(t.job))
  /\ Take(c, JobRow(t.job))
  /\ Go(c, [t EXCEPT !.seen = job[t.job], !.at = "update"])

(* UPDATE job ... WHERE id, status, fence. *)
Chosen(t) ==
  CASE t.op = "cancel" /\ t.seen.status = "queued"     -> "cancel"
    [] t.op = "cancel" /\ t.seen.status = "handed_off" -> "request_cancel"
    [] t.op = "cancel" -> "none"
    [] t.kind = "complete" -> "complete"
    [] t.kind = "return_to_queue" ->
         IF t.seen.cancel THEN "return_to_queue abort" ELSE "return_to_queue"
Fence(t, row) == t.op = "cancel" \/ (row.status = "handed_off" /\ row.handoff = t.n)
UpdateJob(c) ==
  LET t == tx[c]  what == Chosen(t) IN
  /\ At(c, "update")
  /\ IF what = "none" \/ ~Fence(t, job[t.job])
     THEN Go(c, [t EXCEPT !.at = "commit"])
     ELSE Go(c, [t EXCEPT !.writes = <<Write(Change(t.job, what, t.n))>>,
                   !.at = IF what \in {"request_cancel", "return_to_queue"}
                          THEN "commit" ELSE "disown"])
  /\ UNCHANGED lock

(* UPDATE key SET job_id = NULL WHERE key AND job_id = this job. *)
RemoveOwner(c) ==
  LET t == tx[c]  row == skey[t.skey] IN
  /\ At(c, "disown")
  /\ IF row.owner = t.job
     THEN Go(c, [t EXCEPT !.at = "commit",
                   !.writes[1].skey = <<t.skey, [row EXCEPT !.owner = NoJob]>>])
     ELSE Go(c, [t EXCEPT !.at = "commit"])
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

SqlNext ==
  \/ Done
  \/ \E c \in Clients :
       \/ BeginClaim(c)
       \/ LockKey(c)
       \/ ReadOwner(c)
       \/ LockOwner(c)
       \/ InsertNew(c)
       \/ ChangeOwner(c)
       \/ LockJob(c)
       \/ UpdateJob(c)
       \/ RemoveOwner(c)
       \/ NoCandidate(c)
       \/ Commit(c)
       \/ Die(c)
  \/ \E c \in Clients, j \in Ids :
       \/ BeginReplace(c, j)
       \/ BeginCancel(c, j)
       \/ TakeCandidate(c, j)
  \/ \E c \in Clients, s \in ScheduleKeys :
       \/ BeginCancelScheduled(c, s)
       \/ BeginWake(c, s)
  \/ \E c \in Clients, j \in Ids, n \in 1..Bound, kind \in {"complete", "return_to_queue"} :
       BeginAcknowledge(c, j, n, kind)

SqlSpec == SqlInit /\ [][SqlNext]_allVars
==============================================================================
