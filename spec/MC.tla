---------------------------------- MODULE MC ---------------------------------
(***************************************************************************)
(* JobQueue with its constants given by plain sets, so that a slice is one *)
(* short .cfg file: which ids carry which key.                             *)
(***************************************************************************)
EXTENDS JobQueueProps, AnswerNames

CONSTANTS OnA, OnB,      \* ids with the explicit concurrency key "A" or "B"
          OnS, OnT,      \* ids with the schedule key "S" or "T"
          SameWork,      \* ids of one dedupe identity
          OtherWork,     \* ids of another
          SameRequest,   \* ids of one idempotency key
          Retries        \* max_retries of all

MC_ExplicitKeys    == (IF OnA = {} THEN {} ELSE {"A"}) \cup (IF OnB = {} THEN {} ELSE {"B"})
MC_ScheduleKeys    == (IF OnS = {} THEN {} ELSE {"S"}) \cup (IF OnT = {} THEN {} ELSE {"T"})
MC_Identities      == (IF SameWork = {} THEN {} ELSE {"work"}) \cup (IF OtherWork = {} THEN {} ELSE {"other work"})
MC_IdempotencyKeys == IF SameRequest = {} THEN {} ELSE {"request"}
MC_KeyOf == [j \in Ids |-> IF j \in OnA THEN "A" ELSE IF j \in OnB THEN "B" ELSE "-"]
MC_ScheduleKeyOf == [j \in Ids |-> IF j \in OnS THEN "S" ELSE IF j \in OnT THEN "T" ELSE "-"]
MC_IdentityOf == [j \in Ids |-> IF j \in SameWork THEN "work" ELSE IF j \in OtherWork THEN "other work" ELSE "-"]
MC_IdempotencyKeyOf == [j \in Ids |-> IF j \in SameRequest THEN "request" ELSE "-"]
MC_QueueOf   == [j \in Ids |-> "q"]
MC_RetriesOf == [j \in Ids |-> Retries]
==============================================================================
