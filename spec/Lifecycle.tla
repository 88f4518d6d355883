------------------------------ MODULE Lifecycle ------------------------------
(***************************************************************************)
(* The table by itself: one job, moved by nothing but the rows.            *)
(*                                                                         *)
(* JobQueue.tla is written by hand and compared with the rows. This module *)
(* goes the other way: the rows are the actions, and what is written by    *)
(* hand is only what a table of this kind must never allow. It finds a     *)
(* wrong row in a second, before any larger model is asked.                *)
(*                                                                         *)
(* What the world decides (is the job due, is a slot free, is the lease    *)
(* over, ...) is chosen anew at each step; what the job's own history      *)
(* decides (retries left, cancel requested, handoffs spent) is kept.       *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TransitionTable

CONSTANTS MaxRetries,   \* max_retries of the job
          MaxHandoffs   \* max_handoffs of the store

VARIABLES status, attempts, handoffs, cancel, slots, owned
vars == <<status, attempts, handoffs, cancel, slots, owned>>

Terminal == {"completed", "failed", "cancelled"}
Statuses == {"absent", "queued", "handed_off"} \cup Terminal

(* The guards that the world decides. `future` is the opposite of `due`. *)
World == {"due", "slot_free", "not_paused", "lease_over", "unreadable",
          "policy_differs"}

Holds(guard, world) ==
  CASE guard \in World               -> guard \in world
    [] guard = "future"              -> "due" \notin world
    [] guard = "cancel_requested"     -> cancel
    [] guard = "not cancel_requested" -> ~cancel
    [] guard = "retries_left"         -> attempts + 1 <= MaxRetries
    [] guard = "no_retries_left"      -> attempts + 1 > MaxRetries
    [] guard = "handoffs_spent"       -> handoffs >= MaxHandoffs
    [] guard = "not handoffs_spent"   -> handoffs < MaxHandoffs

Applies(row, world) ==
  /\ row.source = status
  /\ \A guard \in row.guards : Holds(guard, world)

Init == /\ status = "absent"
        /\ attempts = 0
        /\ handoffs = 0
        /\ cancel = FALSE
        /\ slots = 0
        /\ owned = FALSE

Take(row, world) ==
  /\ Applies(row, world)
  /\ status' = row.dest
  /\ attempts' = attempts + (IF row.consumes_attempt THEN 1 ELSE 0)
  /\ handoffs' = handoffs + (IF row.trigger = "claim" THEN 1 ELSE 0)
  /\ cancel' = (cancel \/ row.trigger = "request_cancel")
  /\ slots' = CASE row.slot = "reserve" -> slots + 1
                [] row.slot = "release" -> slots - 1
                [] row.slot = "none"    -> slots
  /\ owned' = CASE row.trigger = "enqueue" -> TRUE
                [] row.ends_ownership      -> FALSE
                [] OTHER                   -> owned

Next == \E row \in Rows, world \in SUBSET World : Take(row, world)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What can be seen in the rows without running them. *)

ASSUME TerminalHasNoWayOut == \A row \in Rows : row.source \notin Terminal
ASSUME StatusesAreKnown ==
  \A row \in Rows : /\ row.source \in Statuses \ Terminal
                    /\ row.dest \in Statuses \ {"absent"}
ASSUME EveryStatusIsReached ==
  \A s \in Statuses \ {"absent"} : \E row \in Rows : row.dest = s
ASSUME OnlyEnqueueInserts ==
  \A row \in Rows : (row.source = "absent") <=> (row.trigger = "enqueue")
(* M17: an attempt is a failure of a handoff, told or found out. *)
ASSUME OnlyFailuresCount ==
  \A row \in Rows : row.consumes_attempt <=> row.trigger \in {"fail", "recover"}

-----------------------------------------------------------------------------
(* What must hold whenever the rows are followed. *)

(* C5, seen from one job: it holds a slot exactly while it is handed off. *)
SlotWhileHandedOff == slots = IF status = "handed_off" THEN 1 ELSE 0

(* B2: the attempt that spends the last retry is the last one. *)
AttemptsBounded ==
  attempts <= MaxRetries + (IF status \in Terminal THEN 1 ELSE 0)

(* L5: only a retry, which has its own bound, goes back past max_handoffs. *)
HandoffsBounded == handoffs <= MaxHandoffs + MaxRetries

(* K2: a job owns its schedule key until it ends, and not after. *)
OwnedUntilTheEnd == owned <=> status \in {"queued", "handed_off"}

(* M15, M16: a job that was asked to stop is never queued again. *)
QueuedIsNotCancelled == status = "queued" => ~cancel

(* M20: an acknowledgement of the holder has one outcome, whatever the world. *)
Outcomes(trigger, world) ==
  {row \in Rows : row.trigger = trigger /\ Applies(row, world)}
OneOutcome ==
  status = "handed_off" =>
    \A world \in SUBSET World :
      /\ \A trigger \in {"complete", "fail", "reschedule", "return_to_queue"} :
           Cardinality(Outcomes(trigger, world)) = 1
      /\ Cardinality(Outcomes("recover", world)) =
           IF "lease_over" \in world THEN 1 ELSE 0

TerminalAbsorbing == [][(status \in Terminal) => status' = status]_vars
==============================================================================
