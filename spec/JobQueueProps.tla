---------------------------- MODULE JobQueueProps ----------------------------
(***************************************************************************)
(* What the queue promises, written by hand from the rules (the ids in the *)
(* comments), never generated: so it can disagree with the table.          *)
(* A state formula is an invariant, a [][...]_vars one speaks of steps.    *)
(***************************************************************************)
EXTENDS JobQueue

CountersAre == [cap : Caps \cup {0}, active : 0..Cardinality(Ids)]
TypeOK ==
  /\ DOMAIN job = Ids
  /\ \A j \in Ids :
       /\ Status(j) \in {"absent", "pruned"} \cup Active \cup Terminal
       /\ job[j].handoffs \in Numbers
       /\ job[j].handoff \in Numbers
       /\ job[j].writer \in Numbers
       /\ job[j].attempts \in Nat
       /\ job[j].ended \in {"none", "recover", "reject"} \cup Kinds
       /\ job[j].lease \in {"none", "runs", "over"}
       /\ {job[j].due, job[j].cancel, job[j].unreadable} \subseteq BOOLEAN
       /\ job[j].ckey \in Keys \cup {None}
       /\ job[j].order \in Nat
  /\ counter \in [Keys -> CountersAre]
  /\ \A s \in ScheduleKeys : /\ skey[s].owner \in Ids \cup {NoJob}
                             /\ skey[s].high \in Nat
  /\ queue \in [Queues -> [policy : Caps \cup {0}, paused : BOOLEAN]]
  /\ first \in [IdempotencyKeys -> Ids \cup {NoJob}]

-----------------------------------------------------------------------------
(* Handoffs and fences. *)

(* M16: a handoff id, and a lease, exactly while handed off. *)
HeldIffHandedOff ==
  \A j \in Ids :
    /\ (Status(j) = "handed_off") <=> (job[j].handoff # 0)
    /\ job[j].lease # "none" => Status(j) = "handed_off"

(* M18: whatever was written about a handoff, its own holder wrote. *)
FenceStrict ==
  \A j \in Ids : /\ job[j].writer = job[j].handoffs
                 /\ job[j].handoff \in {0, job[j].handoffs}

(* M19, R6: every claim gives out a handoff that was never given before. *)
HandoffsFresh ==
  [][\A j \in Ids :
       /\ (Status(j) # "handed_off" /\ job'[j].status = "handed_off")
            => job'[j].handoffs > job[j].handoffs
       /\ Status(j) = "handed_off" /\ job'[j].status = "handed_off"
            => job'[j].handoff = job[j].handoff
       /\ job'[j].status # "pruned" => job'[j].handoffs >= job[j].handoffs]_vars

(* M18: an answer is one of accepted, repeated, stale; a repeat is only of *)
(* what the job's latest handoff did, so none of them is accepted as well. *)
OneAnswer ==
  \A j \in Ids, n \in Numbers :
    /\ \A kind \in Kinds : Ended(j, n, kind) =>
         /\ n = job[j].writer
         /\ Status(j) # "handed_off"
    /\ Cardinality({kind \in Kinds : Ended(j, n, kind)}) <= 1

-----------------------------------------------------------------------------
(* The life of a job. *)

(* M: no transition leaves a terminal state (pruning takes the row away). *)
TerminalAbsorbing ==
  [][\A j \in Ids :
       /\ Status(j) \in Terminal => job'[j].status \in {Status(j), "pruned"}
       /\ Status(j) = "pruned" => job'[j].status = "pruned"]_vars

(* A job that was accepted is there until it ends; only then is it pruned. *)
NoJobLost ==
  [][\A j \in Ids :
       /\ Status(j) # "absent" => job'[j].status # "absent"
       /\ job'[j].status = "pruned" => Status(j) \in Terminal \cup {"pruned"}]_vars

(* B2, M17: max_retries + 1 failures at most, and the last one is the end. *)
AttemptsBounded ==
  \A j \in Ids :
    /\ job[j].attempts <= RetriesOf[j] + (IF Status(j) \in Terminal THEN 1 ELSE 0)
    /\ job[j].attempts <= job[j].handoffs

(* M17: counted by one, for a failure of a handoff, and for nothing else. *)
AttemptsCounted ==
  [][\A j \in Ids :
       job'[j].status # "pruned" /\ job'[j].status # Status(j)
         => job'[j].attempts = job[j].attempts +
              (IF Status(j) = "handed_off" /\ job'[j].ended \in {"fail", "recover"}
               THEN 1 ELSE 0)]_vars
AttemptsStay ==
  [][\A j \in Ids :
       job'[j].status = Status(j) => job'[j].attempts = job[j].attempts]_vars

(* L5: only a retry, which has its own bound, goes back past max_handoffs. *)
HandoffsBounded ==
  MaxHandoffs > 0 =>
    \A j \in Ids : job[j].handoffs <= MaxHandoffs + RetriesOf[j]

(* M15, M16: asked to stop, a job may end but is never queued again. *)
QueuedIsNotCancelled == \A j \in Ids : Status(j) = "queued" => ~job[j].cancel
CancelStays ==
  [][\A j \in Ids :
       job[j].cancel /\ job'[j].status # "pruned" => job'[j].cancel]_vars

-----------------------------------------------------------------------------
(* Concurrency caps. *)

(* C5: the counter is the number of handed-off jobs with that key. *)
CounterExact ==
  \A k \in Keys :
    counter[k].active =
      Cardinality({j \in Ids : Status(j) = "handed_off" /\ job[j].ckey = k})

(* C5: no claim takes a counter above the cap of that moment. *)
CapRespected ==
  [][\A k \in Keys :
       counter'[k].active > counter[k].active
         => counter'[k].active <= counter'[k].cap]_vars

(* C7: what is handed off keeps its key, also when it leaves; but what a   *)
(* recovery puts back follows the present policy (L4).                     *)
KeyKept ==
  [][\A j \in Ids :
       Status(j) = "handed_off" /\ job'[j].status # "pruned"
         => \/ job'[j].ckey = job[j].ckey
            \/ /\ job'[j].status = "queued"
               /\ job'[j].ended = "recover"
               /\ job'[j].ckey = Wanted(j)]_vars

(* C2, C8: an explicit key is the job's for ever. *)
ExplicitKeyKept ==
  \A j \in Ids : Status(j) \in Active /\ KeyOf[j] # None => job[j].ckey = KeyOf[j]

-----------------------------------------------------------------------------
(* Schedule keys. *)

(* K, K2: the owner is an active job of that key, the latest to own it. *)
OwnerActive ==
  \A s \in ScheduleKeys : skey[s].owner # NoJob =>
    LET j == skey[s].owner IN /\ Status(j) \in Active
                              /\ ScheduleKeyOf[j] = s
                              /\ job[j].order = skey[s].high

(* K2: once detached, or ended, a job never owns again. *)
OwnershipNeverReturns ==
  [][\A s \in ScheduleKeys, j \in Ids :
       skey[s].owner # j /\ Status(j) # "absent" => skey'[s].owner # j]_vars

(* K2: ownership survives claim, return, retry and recovery. *)
OwnershipStays ==
  [][\A s \in ScheduleKeys :
       LET j == skey[s].owner IN
         j # NoJob /\ skey'[s].owner # j
           => \/ job'[j].status \in Terminal
              \/ job'[j].status = "handed_off" /\ Status(j) = "handed_off"]_vars

(* K3: one order for each ownership, growing, never used twice. (That the *)
(* owner has the highest is said of every state by OwnerActive.)          *)
OrderGrows ==
  [][\A s \in ScheduleKeys :
       /\ skey'[s].high >= skey[s].high
       /\ skey'[s].owner \notin {NoJob, skey[s].owner}
            => skey'[s].high > skey[s].high
       /\ \A j \in Ids : Status(j) # "absent" => job'[j].order = job[j].order]_vars
OrdersDiffer ==
  \A i, j \in Ids :
    i # j /\ job[i].order # 0 /\ ScheduleKeyOf[i] = ScheduleKeyOf[j]
      => job[i].order # job[j].order

-----------------------------------------------------------------------------
(* Enqueue. *)

(* E4: nothing is inserted beside a queued twin that is due. *)
DedupeHolds ==
  [][\A i, j \in Ids :
       ~ /\ Status(j) = "absent" /\ job'[j].status # "absent"
         /\ IdentityOf[j] # None /\ IdempotencyKeyOf[j] = None
         /\ IdentityOf[i] = IdentityOf[j]
         /\ ScheduleKeyOf[i] = None /\ ScheduleKeyOf[j] = None
         /\ Status(i) = "queued" /\ job[i].due]_vars

(* E5: one job for each idempotency key, even after it was pruned. *)
IdempotentOnce ==
  \A j \in Ids :
    LET k == IdempotencyKeyOf[j]
    IN k # None /\ Status(j) # "absent" => first[k] = j

-----------------------------------------------------------------------------
(* The table. Guards by name, in this module's words. *)

Guard(g, j) ==
  CASE g = "due"                  -> job[j].due
    [] g = "future"               -> ~job[j].due
    [] g = "not_paused"           -> ~queue[QueueOf[j]].paused
    [] g = "slot_free"            -> Open(j) /\ SlotFree(j)
    [] g = "cancel_requested"     -> job[j].cancel
    [] g = "not cancel_requested" -> ~job[j].cancel
    [] g = "retries_left"         -> job[j].attempts < RetriesOf[j]
    [] g = "no_retries_left"      -> job[j].attempts >= RetriesOf[j]
    [] g = "handoffs_spent"       -> HandoffsSpent(j)
    [] g = "not handoffs_spent"   -> ~HandoffsSpent(j)
    [] g = "lease_over"           -> LeaseOver(j)
    [] g = "unreadable"           -> job[j].unreadable
    [] g = "policy_differs"       -> job[j].ckey # Wanted(j)
Guarded(row, j) == /\ row.source = Status(j)
                   /\ \A g \in row.guards : Guard(g, j)

(* The slot that a row moves: reserved under the key that the claim wrote, *)
(* released under the key that the job was held under (C7).                *)
SlotMoves(row, j) ==
  CASE row.slot = "none" -> TRUE
    [] row.slot = "reserve" ->
         LET k == job'[j].ckey
         IN k # None => counter'[k].active = counter[k].active + 1
    [] row.slot = "release" ->
         LET k == job[j].ckey
         IN k # None => counter'[k].active = counter[k].active - 1

Follows(row, j) ==
  /\ Guarded(row, j)
  /\ row.dest = job'[j].status
  /\ job'[j].attempts = job[j].attempts + (IF row.consumes_attempt THEN 1 ELSE 0)
  /\ SlotMoves(row, j)
  /\ \A s \in ScheduleKeys : skey[s].owner = j
       => (skey'[s].owner # j) = row.ends_ownership
  /\ row.source = "handed_off" => job'[j].ended = row.trigger

(* M20: every step of a status is a row of the table, guards and all. *)
StepsAreRows ==
  [][\A j \in Ids :
       job'[j].status \notin {Status(j), "pruned"}
         => \E row \in Rows : Follows(row, j)]_vars

(* M20: the steps that keep the status are rows as well. *)
ChangesAreRows ==
  [][\A j \in Ids : job'[j].status = Status(j) =>
       /\ job'[j].cancel # job[j].cancel
            => \E row \in Rows : row.trigger = "request_cancel" /\ Guarded(row, j)
       /\ job'[j].ckey # job[j].ckey
            => \E row \in Rows : row.trigger = "adopt_policy" /\ Guarded(row, j)
       /\ job[j].lease # "runs" /\ job'[j].lease = "runs"
            => \E row \in Rows : row.trigger = "extend_lease" /\ Guarded(row, j)
     ]_vars

(* M20, the other way round: where a row applies, the queue can take it.   *)
(* What the table leaves to the caller is asked for here: the right        *)
(* handoff, an unused id, a readable row, a claim that meets the row.      *)
Step(row, j) ==
  LET n == job[j].handoff  t == row.trigger  to == row.transition IN
  CASE t = "enqueue" -> \E due \in BOOLEAN : Enqueue(j, due)
                          \/ EnqueueDuplicate(j, due) \/ ReplaceScheduled(j, due)
                          \/ EnqueueRepeated(j)
    [] t = "claim"    -> Claim(j)
    [] t = "complete" -> Complete(j, n)
    [] t = "fail" /\ to = "abort"   -> FailAbort(j, n)
    [] t = "fail" /\ to = "retry"   -> FailRetry(j, n)
    [] t = "fail" /\ to = "exhaust" -> FailExhaust(j, n)
    [] t = "reschedule" /\ to = "abort"      -> RescheduleAbort(j, n)
    [] t = "reschedule" /\ to = "give_up"    -> RescheduleGiveUp(j, n)
    [] t = "reschedule" /\ to = "reschedule" ->
         \E due \in BOOLEAN : Reschedule(j, n, due)
    [] t = "return_to_queue" /\ to = "abort"   -> ReturnToQueueAbort(j, n)
    [] t = "return_to_queue" /\ to = "give_up" -> ReturnToQueueGiveUp(j, n)
    [] t = "return_to_queue" /\ to = "return_to_queue" -> ReturnToQueue(j, n)
    [] t = "recover" /\ to = "abort"   -> RecoverAbort(j)
    [] t = "recover" /\ to = "give_up" -> RecoverGiveUp(j)
    [] t = "recover" /\ to = "retry"   -> RecoverRetry(j)
    [] t = "recover" /\ to = "exhaust" -> RecoverExhaust(j)
    [] t = "cancel"         -> Cancel(j)
    [] t = "wake"           -> \E s \in ScheduleKeys : skey[s].owner = j /\ Wake(s)
    [] t = "reject" /\ row.source = "queued" -> RejectQueued(j)
    [] t = "reject" /\ row.source = "handed_off" -> RejectHandedOff(j)
    [] t = "extend_lease"   -> ExtendLease(j, n)
    [] t = "adopt_policy"   -> ReconcileQueuePolicies /\ job'[j] # job[j]
    [] t = "request_cancel" -> RequestCancel(j)
TakesPart(trigger) ==
  CASE trigger \in {"enqueue", "claim", "complete", "reject"} -> TRUE
    [] trigger = "extend_lease" -> On("lease")
    [] trigger = "adopt_policy" -> On("policy")
    [] OTHER -> On(trigger)
RowsAreSteps ==
  \A j \in Ids, row \in Rows :
    (/\ Guarded(row, j)
     /\ job[j].unreadable => row.trigger = "reject"
     /\ row.trigger = "claim" => job[j].handoffs < Bound
     /\ row.trigger = "wake" => Owns(j)
     /\ row.trigger = "reject" /\ row.source = "queued" => Ready(j) /\ Open(j)
     /\ TakesPart(row.trigger))
    => ENABLED Step(row, j)

-----------------------------------------------------------------------------
(* Liveness. Nothing is assumed of workers: they may all be dead. Assumed  *)
(* is that time passes, that someone claims and someone recovers, and that *)
(* the order of claims passes nobody over for ever (O1: strong fairness).  *)
Fairness ==
  /\ \A j \in Ids : /\ SF_vars(Claim(j))
                    /\ WF_vars(FallDue(j))
                    /\ SF_vars(Lapse(j))
                    /\ SF_vars(RecoverAbort(j) \/ RecoverGiveUp(j)
                               \/ RecoverRetry(j) \/ RecoverExhaust(j))
FairSpec == Spec /\ Fairness

(* A due job is some day handed off, or ends. *)
DueIsTaken == \A j \in Ids :
  (Status(j) = "queued" /\ job[j].due) ~> (Status(j) # "queued")
(* With max_retries and max_handoffs set, every accepted job ends. *)
EveryJobEnds == \A j \in Ids :
  (Status(j) \in Active) ~> (Status(j) \in Terminal)
==============================================================================
