------------------------------- MODULE JobQueue ------------------------------
(***************************************************************************)
(* L1: the queue as its callers see it. One action is one committed        *)
(* transaction; nothing is seen half done.                                 *)
(*                                                                         *)
(* A variable is a table, a record is a row: job, counter (concurrency     *)
(* keys), skey (schedule keys), queue (policies), first (idempotency).     *)
(*                                                                         *)
(* Workers are not modelled. A handoff is its number n (the job's          *)
(* `handoffs` when it was claimed), and every number ever given out may    *)
(* come back at any time, any number of times, or never: that is a worker  *)
(* that is slow, repeats itself, or is dead. So any number of workers is   *)
(* covered, and their state costs nothing.                                 *)
(*                                                                         *)
(* Time is not a number. A row is due or not, a lease runs or is over, and *)
(* time may pass for any row at any moment (FallDue, Lapse).               *)
(*                                                                         *)
(* Actions carry the names of the rows: trigger, then transition where it  *)
(* differs (FailRetry); see README.md. They are written by hand; that they *)
(* are the rows is a property (StepsAreRows, RowsAreSteps).                *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TransitionTable

CONSTANTS
  Ids,              \* ids of jobs, each inserted at most once
  NoJob,            \* not an id
  ExplicitKeys,     \* concurrency keys that callers give
  ScheduleKeys,
  Identities,       \* of deduplicate_while_queued: name, arguments, queue
  IdempotencyKeys,
  Queues,           \* a queue's own concurrency key is modelled by its name
  None,             \* no key
  (* what the caller asks for with each id *)
  KeyOf,            \* [Ids -> ExplicitKeys \cup {None}], None follows the queue
  ScheduleKeyOf,    \* [Ids -> ScheduleKeys \cup {None}]
  IdentityOf,       \* [Ids -> Identities \cup {None}]
  IdempotencyKeyOf, \* [Ids -> IdempotencyKeys \cup {None}]
  QueueOf,          \* [Ids -> Queues]
  RetriesOf,        \* [Ids -> Nat], max_retries
  (* bounds, and what takes part *)
  Caps,             \* the caps a counter or a queue's policy may have
  MaxHandoffs,      \* max_handoffs of the store, 0: no limit
  Bound,            \* no claim beyond this number of handoffs of one job
  Features          \* the actions that a slice leaves out are absent here

VARIABLES job, counter, skey, queue, first
vars == <<job, counter, skey, queue, first>>

Keys     == ExplicitKeys \cup Queues
Numbers  == 0..Bound
Terminal == {"completed", "failed", "cancelled"}
Active   == {"queued", "handed_off"}
Kinds    == {"complete", "fail", "reschedule", "return_to_queue"}

ASSUME ExplicitKeys \cap Queues = {}  \* E1: an explicit key is never `queue:...`
ASSUME NoJob \notin Ids /\ None \notin Keys \cup ScheduleKeys

NoRow == [status |-> "absent", attempts |-> 0, handoffs |-> 0, handoff |-> 0,
          writer |-> 0, ended |-> "none", due |-> FALSE, lease |-> "none",
          cancel |-> FALSE, unreadable |-> FALSE, ckey |-> None, order |-> 0]

Init ==
  /\ job = [j \in Ids |-> NoRow]
  /\ counter \in [Keys -> [cap : Caps \cup {0}, active : {0}]]
  /\ queue \in [Queues -> [policy : Caps \cup {0}, paused : {FALSE}]]
  /\ \A k \in ExplicitKeys : counter[k].cap \in Caps
  (* A queue whose policy nobody follows begins with none: fewer states. *)
  /\ \A q \in Queues :
       queue[q].policy # 0 => \E j \in Ids : QueueOf[j] = q /\ KeyOf[j] = None
  /\ \A q \in Queues : counter[q].cap = 0  \* no row yet
  /\ skey = [s \in ScheduleKeys |-> [owner |-> NoJob, high |-> 0]]
  /\ first = [i \in IdempotencyKeys |-> NoJob]

-----------------------------------------------------------------------------
(* Words that the actions share. *)

On(feature) == feature \in Features
Status(j)   == job[j].status
Owns(j)     == \E s \in ScheduleKeys : skey[s].owner = j

(* C2: an explicit key, else the queue's own if the queue has a cap. *)
Policy(j) == queue[QueueOf[j]].policy
Wanted(j) == IF KeyOf[j] # None THEN KeyOf[j]
             ELSE IF Policy(j) > 0 THEN QueueOf[j] ELSE None
(* C3: the counter's cap is the authority; a queue's is adopted by claims. *)
CapOf(j) == IF KeyOf[j] # None THEN counter[KeyOf[j]].cap ELSE Policy(j)
SlotFree(j) == IF Wanted(j) = None THEN TRUE
               ELSE counter[Wanted(j)].active < CapOf(j)
(* O1: claims look at the key that the row has, before they adopt another. *)
Open(j) ==
  LET k == job[j].ckey
  IN IF k = None THEN TRUE
     ELSE counter[k].active <
            IF k \in Queues /\ Policy(j) > 0 THEN Policy(j) ELSE counter[k].cap
AdoptedCap(j) == IF Wanted(j) = None THEN counter
                 ELSE [counter EXCEPT ![Wanted(j)].cap = CapOf(j)]
(* An enqueue or a recovery makes a missing counter and leaves others be.  *)
MadeIn(counters, j) ==
  LET k == Wanted(j)
  IN IF k = None \/ counters[k].cap # 0 THEN counters
     ELSE [counters EXCEPT ![k].cap =
             IF k \in Queues THEN Policy(j) ELSE CHOOSE cap \in Caps : TRUE]

Reserve(j) == IF Wanted(j) = None THEN counter
              ELSE [AdoptedCap(j) EXCEPT ![Wanted(j)].active = @ + 1]
Release(j) == IF job[j].ckey = None THEN counter
              ELSE [counter EXCEPT ![job[j].ckey].active = @ - 1]

(* K2: fenced on the job: only the owner's own end removes the owner. *)
Disown(j) == [s \in ScheduleKeys |->
                IF skey[s].owner = j THEN [skey[s] EXCEPT !.owner = NoJob]
                                     ELSE skey[s]]

(* The fence: the caller's handoff is the one this job is held under. *)
Holds(j, n) == Status(j) = "handed_off" /\ job[j].handoff = n /\ n # 0

RetriesLeft(j)   == job[j].attempts + 1 <= RetriesOf[j]
HandoffsSpent(j) == MaxHandoffs > 0 /\ job[j].handoffs >= MaxHandoffs
LeaseOver(j)     == job[j].lease = "over" \/ On("single_owner")

(* With time switched off, everything is due at once. *)
Later    == {~On("time")}
Whenever == IF On("time") THEN BOOLEAN ELSE {TRUE}

(* Every way out of handed_off. n is the handoff that the caller showed; a *)
(* recovery shows the one that it read.                                    *)
Left(j, n, to, kind, counted, due) ==
  [job[j] EXCEPT !.status = to, !.handoff = 0, !.lease = "none", !.writer = n,
                 !.ended = kind, !.due = (due /\ to = "queued"),
                 !.attempts = IF counted THEN @ + 1 ELSE @]
Leave(j, n, to, kind, counted, due) ==
  /\ job' = [job EXCEPT ![j] = Left(j, n, to, kind, counted, due)]
  /\ counter' = Release(j)
  /\ skey' = IF to \in Terminal THEN Disown(j) ELSE skey
  /\ UNCHANGED <<queue, first>>

Insert(j, order, due) ==
  [NoRow EXCEPT !.status = "queued", !.due = due, !.ckey = Wanted(j),
                !.order = order]

-----------------------------------------------------------------------------
(* Enqueue: M1, E4, E5.                                                    *)

Twin(j, i) == /\ IdentityOf[j] # None
              /\ IdentityOf[i] = IdentityOf[j]
              /\ ScheduleKeyOf[i] = None
              /\ Status(i) = "queued"

(* Only for DedupeSql. What makes a twin without asking for dedupe is not   *)
(* waited for: a job that comes back from a handoff, an enqueue that does   *)
(* not dedupe. An enqueue that is under way then counts as the earlier one. *)
Overlooked(i) == /\ On("late_twins")
                 /\ job[i].handoffs > 0 \/ IdempotencyKeyOf[i] # None

(* E5: the first request owns the key for ever, whatever becomes of it. *)
KeyTaken(j) == /\ IdempotencyKeyOf[j] # None
               /\ first[IdempotencyKeyOf[j]] # NoJob

Enqueue(j, due) ==
  /\ Status(j) = "absent" /\ ScheduleKeyOf[j] = None
  /\ due \in Whenever
  /\ ~KeyTaken(j)
  (* E4: a twin that is due suppresses any; a future one only a later one, *)
  (* which this clock without numbers leaves open.                         *)
  /\ IdempotencyKeyOf[j] = None => ~\E i \in Ids : /\ Twin(j, i) /\ job[i].due
                                                  /\ ~Overlooked(i)
  /\ job' = [job EXCEPT ![j] = Insert(j, 0, due)]
  /\ first' = IF IdempotencyKeyOf[j] = None THEN first
              ELSE [first EXCEPT ![IdempotencyKeyOf[j]] = j]
  /\ counter' = MadeIn(counter, j)
  /\ UNCHANGED <<skey, queue>>

EnqueueDuplicate(j, due) ==
  /\ On("answers") /\ Status(j) = "absent" /\ ScheduleKeyOf[j] = None
  /\ due \in Whenever
  /\ IdempotencyKeyOf[j] = None
  /\ \E i \in Ids : Twin(j, i) /\ (due => job[i].due)
  /\ UNCHANGED vars

EnqueueRepeated(j) ==
  /\ On("answers") /\ Status(j) = "absent" /\ ScheduleKeyOf[j] = None
  /\ KeyTaken(j)
  /\ UNCHANGED vars

-----------------------------------------------------------------------------
(* Claim: M2, M11, C8.                                                     *)

Ready(j) == /\ Status(j) = "queued"
            /\ job[j].due /\ ~queue[QueueOf[j]].paused
Claimable(j) == /\ Ready(j) /\ ~job[j].unreadable
                /\ job[j].handoffs < Bound

Claim(j) ==
  /\ Claimable(j)
  /\ Open(j) /\ SlotFree(j)
  /\ LET n == job[j].handoffs + 1 IN
     job' = [job EXCEPT ![j] = [@ EXCEPT
       !.status = "handed_off", !.handoffs = n, !.handoff = n, !.writer = n,
       !.ended = "none", !.due = FALSE, !.ckey = Wanted(j),
       !.lease = IF On("lease") THEN "runs" ELSE "none"]]
  /\ counter' = Reserve(j)
  /\ UNCHANGED <<skey, queue, first>>

(* The one write that a refused claim keeps: the policy it applied. *)
AdoptPolicy(j) ==
  /\ Claimable(j)
  /\ job[j].ckey # Wanted(j)
  /\ Open(j) /\ ~SlotFree(j)
  /\ job' = [job EXCEPT ![j].ckey = Wanted(j)]
  /\ counter' = AdoptedCap(j)
  /\ UNCHANGED <<skey, queue, first>>

RejectQueued(j) ==
  /\ Ready(j) /\ Open(j) /\ job[j].unreadable
  /\ job' = [job EXCEPT ![j].status = "failed", ![j].due = FALSE]
  /\ skey' = Disown(j)
  /\ UNCHANGED <<counter, queue, first>>

-----------------------------------------------------------------------------
(* Acknowledgements by the holder: M3 to M7, M12, M15.                     *)

Complete(j, n) ==
  /\ Holds(j, n)
  /\ Leave(j, n, "completed", "complete", FALSE, FALSE)

FailAbort(j, n) ==
  /\ On("fail") /\ Holds(j, n)
  /\ RetriesLeft(j) /\ job[j].cancel
  /\ Leave(j, n, "cancelled", "fail", TRUE, FALSE)

FailRetry(j, n) ==
  /\ On("fail") /\ Holds(j, n)
  /\ RetriesLeft(j) /\ ~job[j].cancel
  /\ \E due \in Later : Leave(j, n, "queued", "fail", TRUE, due)

FailExhaust(j, n) ==
  /\ On("fail") /\ Holds(j, n)
  /\ ~RetriesLeft(j)
  /\ Leave(j, n, "failed", "fail", TRUE, FALSE)

RescheduleAbort(j, n) ==
  /\ On("reschedule") /\ Holds(j, n)
  /\ job[j].cancel
  /\ Leave(j, n, "cancelled", "reschedule", FALSE, FALSE)

RescheduleGiveUp(j, n) ==
  /\ On("reschedule") /\ Holds(j, n)
  /\ ~job[j].cancel /\ HandoffsSpent(j)
  /\ Leave(j, n, "failed", "reschedule", FALSE, FALSE)

Reschedule(j, n, due) ==
  /\ On("reschedule") /\ Holds(j, n)
  /\ ~job[j].cancel /\ ~HandoffsSpent(j)
  /\ due \in Whenever
  /\ Leave(j, n, "queued", "reschedule", FALSE, due)

ReturnToQueueAbort(j, n) ==
  /\ On("return_to_queue") /\ Holds(j, n)
  /\ job[j].cancel
  /\ Leave(j, n, "cancelled", "return_to_queue", FALSE, FALSE)

ReturnToQueueGiveUp(j, n) ==
  /\ On("return_to_queue") /\ Holds(j, n)
  /\ ~job[j].cancel /\ HandoffsSpent(j)
  /\ Leave(j, n, "failed", "return_to_queue", FALSE, FALSE)

ReturnToQueue(j, n) ==
  /\ On("return_to_queue") /\ Holds(j, n)
  /\ ~job[j].cancel /\ ~HandoffsSpent(j)
  /\ Leave(j, n, "queued", "return_to_queue", FALSE, TRUE)

ExtendLease(j, n) ==
  /\ On("lease") /\ Holds(j, n)
  /\ job' = [job EXCEPT ![j].lease = "runs", ![j].writer = n]
  /\ UNCHANGED <<counter, skey, queue, first>>

(* M18: what is not accepted is repeated (this handoff, already ended in   *)
(* this very way) or stale; neither writes anything.                       *)
Latest(j, n) == n # 0 /\ n = job[j].handoffs /\ Status(j) # "absent"
Ended(j, n, kind) == Latest(j, n) /\ ~Holds(j, n) /\ job[j].ended = kind

(* One step is all that handoff n of job j hears: to this kind repeated    *)
(* and to every other stale (OneAnswer), or stale to all; an extension is  *)
(* no end, so it is never repeated.                                        *)
AckRepeated(j, n, kind) ==
  /\ On("answers") /\ Ended(j, n, kind)
  /\ UNCHANGED vars

AckStale(j, n) ==
  /\ On("answers") /\ ~Holds(j, n)
  /\ \A kind \in Kinds : ~Ended(j, n, kind)
  /\ UNCHANGED vars

-----------------------------------------------------------------------------
(* Recovery: M8, M21, by anyone, once the lease is over.                   *)

Recoverable(j) == /\ On("recover") /\ Status(j) = "handed_off"
                  /\ LeaseOver(j)

RecoverAbort(j) ==
  /\ Recoverable(j) /\ ~job[j].unreadable
  /\ RetriesLeft(j) /\ job[j].cancel
  /\ Leave(j, job[j].handoff, "cancelled", "recover", TRUE, FALSE)

RecoverGiveUp(j) ==
  /\ Recoverable(j) /\ ~job[j].unreadable
  /\ RetriesLeft(j) /\ ~job[j].cancel /\ HandoffsSpent(j)
  /\ Leave(j, job[j].handoff, "failed", "recover", TRUE, FALSE)

RecoverRetry(j) ==
  /\ Recoverable(j) /\ ~job[j].unreadable
  /\ RetriesLeft(j) /\ ~job[j].cancel /\ ~HandoffsSpent(j)
  (* L4: before anyone can claim it, it gets the present policy; the slot *)
  (* that it gives back is that of its old key.                          *)
  /\ \E due \in Later :
       job' = [job EXCEPT ![j] = [Left(j, job[j].handoff, "queued", "recover",
                                       TRUE, due) EXCEPT !.ckey = Wanted(j)]]
  /\ counter' = MadeIn(Release(j), j)
  /\ UNCHANGED <<skey, queue, first>>

RecoverExhaust(j) ==
  /\ Recoverable(j) /\ ~job[j].unreadable
  /\ ~RetriesLeft(j)
  /\ Leave(j, job[j].handoff, "failed", "recover", TRUE, FALSE)

RejectHandedOff(j) ==
  /\ Recoverable(j) /\ job[j].unreadable
  /\ Leave(j, job[j].handoff, "failed", "reject", FALSE, FALSE)

-----------------------------------------------------------------------------
(* By id: M9, M14, R1.                                                     *)

Cancel(j) ==
  /\ On("cancel") /\ Status(j) = "queued"
  /\ job' = [job EXCEPT ![j].status = "cancelled", ![j].due = FALSE]
  /\ skey' = Disown(j)
  /\ UNCHANGED <<counter, queue, first>>

RequestCancel(j) ==
  /\ On("request_cancel") /\ Status(j) = "handed_off"
  /\ job' = [job EXCEPT ![j].cancel = TRUE]
  /\ UNCHANGED <<counter, skey, queue, first>>

(* Only the row goes, and its key's counter if no other row names it: the  *)
(* idempotency key and the high-water stay.                                *)
Named(k, without) == \E i \in Ids \ {without} : job[i].ckey = k
PruneTerminal(j) ==
  /\ On("prune") /\ Status(j) \in Terminal
  /\ job' = [job EXCEPT ![j] = [NoRow EXCEPT !.status = "pruned",
                                             !.order = job[j].order]]
  /\ LET k == job[j].ckey
     IN counter' = IF k = None THEN counter
                   ELSE IF counter[k].active # 0 \/ Named(k, j) THEN counter
                   ELSE [counter EXCEPT ![k].cap = 0]
  /\ UNCHANGED <<skey, queue, first>>

-----------------------------------------------------------------------------
(* By schedule key: section K.                                             *)

ReplaceScheduled(j, due) ==
  /\ Status(j) = "absent" /\ ScheduleKeyOf[j] # None
  /\ due \in Whenever
  /\ LET s     == ScheduleKeyOf[j]
         old   == skey[s].owner
         order == skey[s].high + 1
         with  == [job EXCEPT ![j] = Insert(j, order, due)]
     IN /\ job' = IF old # NoJob /\ Status(old) = "queued"
                  THEN [with EXCEPT ![old].status = "cancelled",
                                    ![old].due = FALSE]
                  ELSE with
        /\ skey' = [skey EXCEPT ![s] = [owner |-> j, high |-> order]]
  /\ counter' = MadeIn(counter, j)
  /\ UNCHANGED <<queue, first>>

CancelScheduled(s) ==
  /\ On("cancel_scheduled") /\ skey[s].owner # NoJob
  /\ LET old == skey[s].owner
     IN job' = IF Status(old) = "queued"
               THEN [job EXCEPT ![old].status = "cancelled", ![old].due = FALSE]
               ELSE [job EXCEPT ![old].cancel = TRUE]
  /\ skey' = [skey EXCEPT ![s].owner = NoJob]
  /\ UNCHANGED <<counter, queue, first>>

Wake(s) ==
  /\ On("wake") /\ skey[s].owner # NoJob
  /\ LET j == skey[s].owner
     IN /\ Status(j) = "queued" /\ ~job[j].due
        /\ job' = [job EXCEPT ![j].due = TRUE]
  /\ UNCHANGED <<counter, skey, queue, first>>

-----------------------------------------------------------------------------
(* Policies: C3, C7, R4.                                                   *)

SetConcurrency(k, cap) ==
  /\ On("set_concurrency") /\ k \in ExplicitKeys /\ cap # counter[k].cap
  /\ counter' = [counter EXCEPT ![k].cap = cap]
  /\ UNCHANGED <<job, skey, queue, first>>

(* A store with another opinion starts: no row knows of it yet. *)
Configure(q, cap) ==
  /\ On("policy") /\ cap # queue[q].policy
  /\ queue' = [queue EXCEPT ![q].policy = cap]
  /\ UNCHANGED <<job, counter, skey, first>>

(* C7: queued rows without an explicit key follow; handed-off ones keep. *)
ReconcileQueuePolicies ==
  /\ On("policy")
  /\ job' = [j \in Ids |-> IF Status(j) = "queued" /\ KeyOf[j] = None
                           THEN [job[j] EXCEPT !.ckey = Wanted(j)] ELSE job[j]]
  /\ counter' = [k \in Keys |->
                   IF k \in Queues /\ queue[k].policy > 0
                   THEN [counter[k] EXCEPT !.cap = queue[k].policy]
                   ELSE counter[k]]
  /\ UNCHANGED <<skey, queue, first>>

PauseQueue(q) ==
  /\ On("pause") /\ ~queue[q].paused
  /\ queue' = [queue EXCEPT ![q].paused = TRUE]
  /\ UNCHANGED <<job, counter, skey, first>>

ResumeQueue(q) ==
  /\ On("pause") /\ queue[q].paused
  /\ queue' = [queue EXCEPT ![q].paused = FALSE]
  /\ UNCHANGED <<job, counter, skey, first>>

-----------------------------------------------------------------------------
(* The world: time passes, rows are damaged.                               *)

FallDue(j) ==
  /\ On("time") /\ Status(j) = "queued" /\ ~job[j].due
  /\ job' = [job EXCEPT ![j].due = TRUE]
  /\ UNCHANGED <<counter, skey, queue, first>>

Lapse(j) ==
  /\ job[j].lease = "runs"
  /\ job' = [job EXCEPT ![j].lease = "over"]
  /\ UNCHANGED <<counter, skey, queue, first>>

Damage(j) ==
  /\ On("damage") /\ Status(j) \in Active /\ ~job[j].unreadable
  /\ job' = [job EXCEPT ![j].unreadable = TRUE]
  /\ UNCHANGED <<counter, skey, queue, first>>

-----------------------------------------------------------------------------
(* Quantified over constant sets only, so that TLC names every edge. Where *)
(* it must also name whose answer it is, NamedAnswers (AnswerNames) take   *)
(* the place of Refused.                                                   *)
Refused ==
  \E j \in Ids, n \in Numbers :
       \/ AckStale(j, n)
       \/ \E kind \in Kinds : AckRepeated(j, n, kind)

Next ==
  \/ \E j \in Ids, due \in BOOLEAN :
       \/ Enqueue(j, due)
       \/ EnqueueDuplicate(j, due)
       \/ ReplaceScheduled(j, due)
  \/ \E j \in Ids :
       \/ EnqueueRepeated(j)
       \/ Claim(j)
       \/ AdoptPolicy(j)
       \/ RejectQueued(j)
       \/ RecoverAbort(j)
       \/ RecoverGiveUp(j)
       \/ RecoverRetry(j)
       \/ RecoverExhaust(j)
       \/ RejectHandedOff(j)
       \/ Cancel(j)
       \/ RequestCancel(j)
       \/ PruneTerminal(j)
       \/ FallDue(j)
       \/ Lapse(j)
       \/ Damage(j)
  \/ \E j \in Ids, n \in Numbers :
       \/ Complete(j, n)
       \/ FailAbort(j, n)
       \/ FailRetry(j, n)
       \/ FailExhaust(j, n)
       \/ RescheduleAbort(j, n)
       \/ RescheduleGiveUp(j, n)
       \/ \E due \in BOOLEAN : Reschedule(j, n, due)
       \/ ReturnToQueueAbort(j, n)
       \/ ReturnToQueueGiveUp(j, n)
       \/ ReturnToQueue(j, n)
       \/ ExtendLease(j, n)
  \/ Refused
  \/ \E s \in ScheduleKeys :
       \/ CancelScheduled(s)
       \/ Wake(s)
  \/ \E k \in ExplicitKeys, cap \in Caps : SetConcurrency(k, cap)
  \/ \E q \in Queues, cap \in Caps \cup {0} : Configure(q, cap)
  \/ ReconcileQueuePolicies
  \/ \E q \in Queues :
       \/ PauseQueue(q)
       \/ ResumeQueue(q)

Spec == Init /\ [][Next]_vars
==============================================================================
