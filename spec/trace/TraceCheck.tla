------------------------------ MODULE TraceCheck -----------------------------
(***************************************************************************)
(* Was a journal possible? One event is one entry; the events of one       *)
(* transaction follow one another, and `end` marks the last.               *)
(*                                                                         *)
(* A step of a job must be a row of TransitionTable. What the rows do not  *)
(* say is here by hand: counters and owners, judged where a transaction    *)
(* ends. TraceData.tla is made from a journal (trace/tla.py). It is short, *)
(* for reading it is half of the work: ids are numbers; times are ranks,   *)
(* which keep the order among them and nothing else; what repeats itself   *)
(* is a number in Steps, Rest or Words.                                    *)
(*                                                                         *)
(* The trace is a behaviour of this spec, or TLC finds a deadlock: its     *)
(* depth is the number of the first event that was not possible, from 1.   *)
(* Nothing is chosen on the way, so a state is its place in the trace      *)
(* (VIEW). That no event is forgotten is not asked here: revisions are     *)
(* followed, but the tables at the end are compared in Python.             *)
(***************************************************************************)
EXTENDS Integers, Sequences, TransitionTable, TraceData

VARIABLES i,        \* the next event
          job, counter, owner,   \* rows
          held,     \* by concurrency key: its handed-off jobs
          handoffs, \* how many handoff ids have been used; they are numbered so
          \* what has happened so far in this transaction
          joined, left,          \* keys of which a slot was taken, given back
          new, ended, marked,    \* jobs
          keys, skeys            \* what must be judged at its end

rows == <<job, counter, owner, held, handoffs>>
here == <<joined, left, new, ended, marked, keys, skeys>>
vars == <<i, rows, here>>
Place == i

Terminal == {"completed", "failed", "cancelled"}
Active   == {"queued", "handed_off"}
None     == 0

(* TLC finds an element of a tuple at once; of a function it makes an index. *)
AsTuple(f) == <<>> \o f

NoRow == [status |-> "absent", rev |-> -1, attempts |-> 0, retries |-> 0,
          claims |-> 0, handoff |-> None, cancel |-> FALSE, due |-> 0,
          lease |-> 0, key |-> None, cap |-> 0, priority |-> 0, skey |-> None,
          order |-> 0]

Init ==
  /\ i = 1
  /\ job = AsTuple([j \in 1..Jobs |-> NoRow])
  /\ counter = [k \in 1..Keys |-> [there |-> FALSE, rev |-> -1, active |-> 0,
                                   cap |-> 0]]
  (* A schedule key is inserted as revision 0 without being noted. *)
  /\ owner = [s \in 1..ScheduleKeys |-> [rev |-> 0, job |-> None, order |-> 0]]
  /\ held = [k \in 1..Keys |-> 0]
  /\ handoffs = 0
  /\ joined = {} /\ left = {} /\ new = {} /\ ended = {} /\ marked = {}
  /\ keys = {} /\ skeys = {}

-----------------------------------------------------------------------------
(* An event, read. Its first element says of what kind it is.              *)

JobEvent(t) ==
  LET step == Steps[t[5]]  rest == Rest[t[13]]
  IN [id |-> t[3], rev |-> t[4], at |-> t[6], shown |-> t[7],
      trigger |-> step[1], transition |-> step[2], whole |-> step[3],
      status |-> step[4], attempts |-> t[8], claims |-> t[9], handoff |-> t[10],
      due |-> t[11], lease |-> t[12], cancel |-> rest[1], retries |-> rest[2],
      key |-> rest[3], cap |-> rest[4], priority |-> rest[5], skey |-> rest[6],
      order |-> rest[7]]
CounterEvent(t) == [id |-> t[3], from |-> t[4], rev |-> t[5],
                    actions |-> Words[t[6]], active |-> t[7], cap |-> t[8]]
OwnerEvent(t) == [id |-> t[3], from |-> t[4], rev |-> t[5],
                  actions |-> Words[t[6]], job |-> t[7], order |-> t[8]]
Deleted(t) == [id |-> t[3], rev |-> t[4]]

Kind(t)   == t[1]
IsLast(t) == t[2] = 1  \* of its transaction

(* What has happened in this transaction before this event. *)
Starts  == IF i = 1 THEN TRUE ELSE IsLast(Trace[i - 1])
So(set) == IF Starts THEN {} ELSE set

-----------------------------------------------------------------------------
(* Jobs. *)

Holds(guard, e, b) ==
  CASE guard = "due"                  -> b.due <= e.at
    [] guard = "future"               -> b.due > e.at
    [] guard = "cancel_requested"     -> b.cancel
    [] guard = "not cancel_requested" -> ~b.cancel
    [] guard = "retries_left"         -> b.attempts + 1 <= b.retries
    [] guard = "no_retries_left"      -> b.attempts + 1 > b.retries
    [] guard = "handoffs_spent"       -> MaxHandoffs = 0 \/ b.claims >= MaxHandoffs
    [] guard = "not handoffs_spent"   -> MaxHandoffs = 0 \/ b.claims < MaxHandoffs
    [] guard = "lease_over"           -> e.whole \/ (b.lease # 0 /\ b.lease <= e.at)
    [] guard = "policy_differs"       -> \/ e.key # b.key \/ e.cap # b.cap
                                         \/ e.priority # b.priority
    (* Shows in the counter, or not at all. *)
    [] guard \in {"slot_free", "not_paused", "unreadable"} -> TRUE

(* Who shows a handoff, or has read one, shows the one that the job has. *)
Fenced(row) == row.source = "handed_off" /\ row.trigger # "request_cancel"

Leaves(row)   == row.source = "handed_off" /\ row.dest # "handed_off"
Claims(row)   == row.trigger = "claim"
GoesBack(row) == row.source = "handed_off" /\ row.dest = "queued"

(* What an entry must say after row: only what the row writes has changed. *)
Written(row, e, b) ==
  /\ e.status = row.dest
  /\ e.attempts = b.attempts + (IF row.consumes_attempt THEN 1 ELSE 0)
  /\ e.claims = b.claims + (IF Claims(row) THEN 1 ELSE 0)
  /\ e.handoff = CASE Claims(row) -> handoffs + 1  \* never one used before
                   [] Leaves(row) -> None
                   [] OTHER       -> b.handoff
  /\ e.cancel = (b.cancel \/ row.trigger = "request_cancel")
  /\ CASE row.trigger \in {"wake", "return_to_queue"} /\ row.dest = "queued"
            -> e.due = e.at
       [] row.trigger # "wake" /\ GoesBack(row) -> e.due >= e.at
       [] OTHER -> e.due = b.due
  /\ CASE Claims(row) \/ row.trigger = "extend_lease"
            -> e.lease = 0 \/ e.lease >= e.at
       [] Leaves(row) -> e.lease = 0
       [] OTHER       -> e.lease = b.lease
  /\ row.trigger # "adopt_policy" => /\ e.key = b.key /\ e.cap = b.cap
                                     /\ e.priority = b.priority
  /\ e.skey = b.skey /\ e.order = b.order /\ e.retries = b.retries

Fresh(e) ==
  /\ e.status = "queued" /\ e.attempts = 0 /\ e.claims = 0 /\ e.handoff = None
  /\ ~e.cancel /\ e.lease = 0
  /\ (e.skey = None) = (e.order = 0)

IsRow(row, e, b) ==
  /\ row.trigger = e.trigger /\ row.transition = e.transition
  /\ row.source = b.status
  /\ Fenced(row) => e.shown = b.handoff
  /\ \A guard \in row.guards : Holds(guard, e, b)
  /\ IF row.source = "absent" THEN Fresh(e) ELSE Written(row, e, b)

After(e) ==
  [status |-> e.status, rev |-> e.rev, attempts |-> e.attempts,
   retries |-> e.retries, claims |-> e.claims, handoff |-> e.handoff,
   cancel |-> e.cancel, due |-> e.due, lease |-> e.lease, key |-> e.key,
   cap |-> e.cap, priority |-> e.priority, skey |-> e.skey, order |-> e.order]

Slots(b, e) ==
  LET loses == b.status = "handed_off" /\ e.status # "handed_off" /\ b.key # None
      gains == b.status # "handed_off" /\ e.status = "handed_off" /\ e.key # None
  IN /\ held' = CASE loses -> [held EXCEPT ![b.key] = @ - 1]
                  [] gains -> [held EXCEPT ![e.key] = @ + 1]
                  [] OTHER -> held
     /\ left' = So(left) \cup (IF loses THEN {b.key} ELSE {})
     /\ joined' = So(joined) \cup (IF gains THEN {e.key} ELSE {})
     /\ keys' = So(keys) \cup (IF loses THEN {b.key} ELSE {})
                         \cup (IF gains THEN {e.key} ELSE {})

JobStep(e, b) ==
  /\ e.rev = b.rev + 1
  /\ \E row \in Rows :
       /\ IsRow(row, e, b)
       /\ handoffs' = IF Claims(row) THEN handoffs + 1 ELSE handoffs
       /\ marked' = So(marked) \cup
            (IF row.trigger = "request_cancel" THEN {e.id} ELSE {})
  /\ job' = [job EXCEPT ![e.id] = After(e)]
  /\ Slots(b, e)
  /\ new' = So(new) \cup (IF b.status = "absent" THEN {e.id} ELSE {})
  /\ ended' = So(ended) \cup (IF e.status \in Terminal THEN {e.id} ELSE {})
  /\ skeys' = So(skeys) \cup
       (IF e.skey # None /\ (e.status \in Terminal \/ b.status = "absent")
        THEN {e.skey} ELSE {})
  /\ UNCHANGED <<counter, owner>>

(* The number of a job that has ended, and of which nothing more will be said, *)
(* is given to another: fewer numbers, less work for TLC.                      *)
NewJob(e) == /\ job[e.id].status \in {"absent", "deleted"} \cup Terminal
             /\ JobStep(e, NoRow)

SameJobs == /\ joined' = So(joined) /\ left' = So(left)
            /\ new' = So(new) /\ ended' = So(ended) /\ marked' = So(marked)

JobDeleted(e) ==
  /\ e.rev = job[e.id].rev + 1
  /\ job[e.id].status \in Terminal
  /\ job' = [job EXCEPT ![e.id] = [@ EXCEPT !.status = "deleted", !.rev = e.rev]]
  /\ UNCHANGED <<counter, owner, held, handoffs>>
  /\ SameJobs /\ keys' = So(keys) /\ skeys' = So(skeys)

-----------------------------------------------------------------------------
(* Counters: C3, C4. *)

Recounts == {"create", "count", "repair"}

CounterStep(e) ==
  LET b == counter[e.id] IN
  /\ e.from = b.rev + 1
  /\ e.actions \subseteq Recounts \cup {"reserve", "release", "set_cap"}
  /\ ("create" \in e.actions) = ~b.there
  /\ "reserve" \in e.actions => e.id \in So(joined) /\ e.active <= e.cap
  /\ "release" \in e.actions => e.id \in So(left)
  /\ e.id \in So(joined) => e.actions \cap (Recounts \cup {"reserve"}) # {}
  /\ e.id \in So(left) => e.actions \cap (Recounts \cup {"release"}) # {}
  /\ "repair" \in e.actions => e.active # b.active
  /\ e.actions \cap {"create", "set_cap"} = {} => e.cap = b.cap
  /\ counter' = [counter EXCEPT ![e.id] =
       [there |-> TRUE, rev |-> e.rev, active |-> e.active, cap |-> e.cap]]
  /\ keys' = So(keys) \cup {e.id}
  /\ UNCHANGED <<job, owner, held, handoffs>>
  /\ SameJobs /\ skeys' = So(skeys)

CounterDeleted(e) ==
  LET b == counter[e.id] IN
  /\ e.rev = b.rev + 1
  /\ b.there /\ b.active = 0
  /\ counter' = [counter EXCEPT ![e.id] = [@ EXCEPT !.there = FALSE,
                                                    !.rev = e.rev]]
  /\ keys' = So(keys) \cup {e.id}
  /\ UNCHANGED <<job, owner, held, handoffs>>
  /\ SameJobs /\ skeys' = So(skeys)

-----------------------------------------------------------------------------
(* Owners: K2, K3. *)

IsActive(j) == j # None /\ job[j].status \in Active
MayEnd(j)   == j # None /\ (j \in So(ended) \cup So(marked) \/ ~IsActive(j))

Owned(e, b) ==
  /\ e.job \in So(new) /\ job[e.job].skey = e.id
  /\ e.order = b.order + 1 /\ job[e.job].order = e.order
  /\ ("disown" \notin e.actions /\ b.job # None) => job[b.job].status # "queued"

OwnerStep(e) ==
  LET b == owner[e.id] IN
  /\ CASE e.actions = {"rebuild"} ->
            /\ e.from \in {b.rev + 1, 0}
            /\ e.order >= b.order
            /\ e.job = None \/ IsActive(e.job)
       [] e.actions = {"disown"} ->
            /\ e.from = b.rev + 1 /\ MayEnd(b.job)
            /\ e.job = None /\ e.order = b.order
       [] e.actions = {"own"} -> e.from = b.rev + 1 /\ Owned(e, b)
       [] e.actions = {"disown", "own"} ->
            e.from = b.rev + 1 /\ MayEnd(b.job) /\ Owned(e, b)
       [] OTHER -> FALSE
  /\ owner' = [owner EXCEPT ![e.id] =
       [rev |-> e.rev, job |-> e.job, order |-> e.order]]
  /\ skeys' = So(skeys) \cup {e.id}
  /\ UNCHANGED <<job, counter, held, handoffs>>
  /\ SameJobs /\ keys' = So(keys)

-----------------------------------------------------------------------------
Begins == /\ UNCHANGED rows
          /\ SameJobs /\ keys' = So(keys) /\ skeys' = So(skeys)

(* At every commit: C5, K2. *)
Kept ==
  /\ \A k \in keys' : IF counter'[k].there THEN counter'[k].active = held'[k]
                                           ELSE held'[k] = 0
  /\ \A s \in skeys' : IF owner'[s].job = None THEN TRUE
                       ELSE /\ job'[owner'[s].job].status \in Active
                            /\ job'[owner'[s].job].skey = s
  /\ \A j \in new' : IF job'[j].skey = None THEN TRUE
                     ELSE owner'[job'[j].skey].job = j

Event(t) ==
  CASE Kind(t) = "new"     -> NewJob(JobEvent(t))
    [] Kind(t) = "job"     -> LET e == JobEvent(t) IN JobStep(e, job[e.id])
    [] Kind(t) = "job-"    -> JobDeleted(Deleted(t))
    [] Kind(t) = "counter" -> CounterStep(CounterEvent(t))
    [] Kind(t) = "counter-" -> CounterDeleted(Deleted(t))
    [] Kind(t) = "owner"   -> OwnerStep(OwnerEvent(t))
    [] Kind(t) = "begin"   -> Begins

(* Two steps of the same kind, so that what is judged can be primed. *)
Inside == /\ i <= Len(Trace) /\ ~IsLast(Trace[i])
          /\ Event(Trace[i])
          /\ i' = i + 1
Ending == /\ i <= Len(Trace) /\ IsLast(Trace[i])
          /\ Event(Trace[i])
          /\ Kept
          /\ i' = i + 1
Done   == i = Len(Trace) + 1 /\ UNCHANGED vars
Next   == Inside \/ Ending \/ Done
Spec   == Init /\ [][Next]_vars
==============================================================================
