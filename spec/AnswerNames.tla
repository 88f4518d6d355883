----------------------------- MODULE AnswerNames ------------------------------
(***************************************************************************)
(* Written by equality/names.py, for TLC names an edge after a definition, *)
(* without its arguments. Each answer that changes nothing has a name:     *)
(* job, handoff, and the kind to which it is repeated. A configuration has *)
(* them by `Refused <- NamedAnswers`.                                      *)
(***************************************************************************)
EXTENDS JobQueue

Asked(j, n) == j \in Ids /\ n \in Numbers

AckStale_1_0 == Asked(1, 0) /\ AckStale(1, 0)
AckRepeated_1_0_complete == Asked(1, 0) /\ AckRepeated(1, 0, "complete")
AckRepeated_1_0_fail == Asked(1, 0) /\ AckRepeated(1, 0, "fail")
AckRepeated_1_0_reschedule == Asked(1, 0) /\ AckRepeated(1, 0, "reschedule")
AckRepeated_1_0_return_to_queue == Asked(1, 0) /\ AckRepeated(1, 0, "return_to_queue")
AckStale_1_1 == Asked(1, 1) /\ AckStale(1, 1)
AckRepeated_1_1_complete == Asked(1, 1) /\ AckRepeated(1, 1, "complete")
AckRepeated_1_1_fail == Asked(1, 1) /\ AckRepeated(1, 1, "fail")
AckRepeated_1_1_reschedule == Asked(1, 1) /\ AckRepeated(1, 1, "reschedule")
AckRepeated_1_1_return_to_queue == Asked(1, 1) /\ AckRepeated(1, 1, "return_to_queue")
AckStale_1_2 == Asked(1, 2) /\ AckStale(1, 2)
AckRepeated_1_2_complete == Asked(1, 2) /\ AckRepeated(1, 2, "complete")
AckRepeated_1_2_fail == Asked(1, 2) /\ AckRepeated(1, 2, "fail")
AckRepeated_1_2_reschedule == Asked(1, 2) /\ AckRepeated(1, 2, "reschedule")
AckRepeated_1_2_return_to_queue == Asked(1, 2) /\ AckRepeated(1, 2, "return_to_queue")
AckStale_1_3 == Asked(1, 3) /\ AckStale(1, 3)
AckRepeated_1_3_complete == Asked(1, 3) /\ AckRepeated(1, 3, "complete")
AckRepeated_1_3_fail == Asked(1, 3) /\ AckRepeated(1, 3, "fail")
AckRepeated_1_3_reschedule == Asked(1, 3) /\ AckRepeated(1, 3, "reschedule")
AckRepeated_1_3_return_to_queue == Asked(1, 3) /\ AckRepeated(1, 3, "return_to_queue")
AckStale_2_0 == Asked(2, 0) /\ AckStale(2, 0)
AckRepeated_2_0_complete == Asked(2, 0) /\ AckRepeated(2, 0, "complete")
AckRepeated_2_0_fail == Asked(2, 0) /\ AckRepeated(2, 0, "fail")
AckRepeated_2_0_reschedule == Asked(2, 0) /\ AckRepeated(2, 0, "reschedule")
AckRepeated_2_0_return_to_queue == Asked(2, 0) /\ AckRepeated(2, 0, "return_to_queue")
AckStale_2_1 == Asked(2, 1) /\ AckStale(2, 1)
AckRepeated_2_1_complete == Asked(2, 1) /\ AckRepeated(2, 1, "complete")
AckRepeated_2_1_fail == Asked(2, 1) /\ AckRepeated(2, 1, "fail")
AckRepeated_2_1_reschedule == Asked(2, 1) /\ AckRepeated(2, 1, "reschedule")
AckRepeated_2_1_return_to_queue == Asked(2, 1) /\ AckRepeated(2, 1, "return_to_queue")
AckStale_2_2 == Asked(2, 2) /\ AckStale(2, 2)
AckRepeated_2_2_complete == Asked(2, 2) /\ AckRepeated(2, 2, "complete")
AckRepeated_2_2_fail == Asked(2, 2) /\ AckRepeated(2, 2, "fail")
AckRepeated_2_2_reschedule == Asked(2, 2) /\ AckRepeated(2, 2, "reschedule")
AckRepeated_2_2_return_to_queue == Asked(2, 2) /\ AckRepeated(2, 2, "return_to_queue")
AckStale_2_3 == Asked(2, 3) /\ AckStale(2, 3)
AckRepeated_2_3_complete == Asked(2, 3) /\ AckRepeated(2, 3, "complete")
AckRepeated_2_3_fail == Asked(2, 3) /\ AckRepeated(2, 3, "fail")
AckRepeated_2_3_reschedule == Asked(2, 3) /\ AckRepeated(2, 3, "reschedule")
AckRepeated_2_3_return_to_queue == Asked(2, 3) /\ AckRepeated(2, 3, "return_to_queue")
AckStale_3_0 == Asked(3, 0) /\ AckStale(3, 0)
AckRepeated_3_0_complete == Asked(3, 0) /\ AckRepeated(3, 0, "complete")
AckRepeated_3_0_fail == Asked(3, 0) /\ AckRepeated(3, 0, "fail")
AckRepeated_3_0_reschedule == Asked(3, 0) /\ AckRepeated(3, 0, "reschedule")
AckRepeated_3_0_return_to_queue == Asked(3, 0) /\ AckRepeated(3, 0, "return_to_queue")
AckStale_3_1 == Asked(3, 1) /\ AckStale(3, 1)
AckRepeated_3_1_complete == Asked(3, 1) /\ AckRepeated(3, 1, "complete")
AckRepeated_3_1_fail == Asked(3, 1) /\ AckRepeated(3, 1, "fail")
AckRepeated_3_1_reschedule == Asked(3, 1) /\ AckRepeated(3, 1, "reschedule")
AckRepeated_3_1_return_to_queue == Asked(3, 1) /\ AckRepeated(3, 1, "return_to_queue")
AckStale_3_2 == Asked(3, 2) /\ AckStale(3, 2)
AckRepeated_3_2_complete == Asked(3, 2) /\ AckRepeated(3, 2, "complete")
AckRepeated_3_2_fail == Asked(3, 2) /\ AckRepeated(3, 2, "fail")
AckRepeated_3_2_reschedule == Asked(3, 2) /\ AckRepeated(3, 2, "reschedule")
AckRepeated_3_2_return_to_queue == Asked(3, 2) /\ AckRepeated(3, 2, "return_to_queue")
AckStale_3_3 == Asked(3, 3) /\ AckStale(3, 3)
AckRepeated_3_3_complete == Asked(3, 3) /\ AckRepeated(3, 3, "complete")
AckRepeated_3_3_fail == Asked(3, 3) /\ AckRepeated(3, 3, "fail")
AckRepeated_3_3_reschedule == Asked(3, 3) /\ AckRepeated(3, 3, "reschedule")
AckRepeated_3_3_return_to_queue == Asked(3, 3) /\ AckRepeated(3, 3, "return_to_queue")

NamedAnswers ==
  \/ AckStale_1_0
  \/ AckRepeated_1_0_complete
  \/ AckRepeated_1_0_fail
  \/ AckRepeated_1_0_reschedule
  \/ AckRepeated_1_0_return_to_queue
  \/ AckStale_1_1
  \/ AckRepeated_1_1_complete
  \/ AckRepeated_1_1_fail
  \/ AckRepeated_1_1_reschedule
  \/ AckRepeated_1_1_return_to_queue
  \/ AckStale_1_2
  \/ AckRepeated_1_2_complete
  \/ AckRepeated_1_2_fail
  \/ AckRepeated_1_2_reschedule
  \/ AckRepeated_1_2_return_to_queue
  \/ AckStale_1_3
  \/ AckRepeated_1_3_complete
  \/ AckRepeated_1_3_fail
  \/ AckRepeated_1_3_reschedule
  \/ AckRepeated_1_3_return_to_queue
  \/ AckStale_2_0
  \/ AckRepeated_2_0_complete
  \/ AckRepeated_2_0_fail
  \/ AckRepeated_2_0_reschedule
  \/ AckRepeated_2_0_return_to_queue
  \/ AckStale_2_1
  \/ AckRepeated_2_1_complete
  \/ AckRepeated_2_1_fail
  \/ AckRepeated_2_1_reschedule
  \/ AckRepeated_2_1_return_to_queue
  \/ AckStale_2_2
  \/ AckRepeated_2_2_complete
  \/ AckRepeated_2_2_fail
  \/ AckRepeated_2_2_reschedule
  \/ AckRepeated_2_2_return_to_queue
  \/ AckStale_2_3
  \/ AckRepeated_2_3_complete
  \/ AckRepeated_2_3_fail
  \/ AckRepeated_2_3_reschedule
  \/ AckRepeated_2_3_return_to_queue
  \/ AckStale_3_0
  \/ AckRepeated_3_0_complete
  \/ AckRepeated_3_0_fail
  \/ AckRepeated_3_0_reschedule
  \/ AckRepeated_3_0_return_to_queue
  \/ AckStale_3_1
  \/ AckRepeated_3_1_complete
  \/ AckRepeated_3_1_fail
  \/ AckRepeated_3_1_reschedule
  \/ AckRepeated_3_1_return_to_queue
  \/ AckStale_3_2
  \/ AckRepeated_3_2_complete
  \/ AckRepeated_3_2_fail
  \/ AckRepeated_3_2_reschedule
  \/ AckRepeated_3_2_return_to_queue
  \/ AckStale_3_3
  \/ AckRepeated_3_3_complete
  \/ AckRepeated_3_3_fail
  \/ AckRepeated_3_3_reschedule
  \/ AckRepeated_3_3_return_to_queue
===============================================================================
