"""S1 to S23 of journals.md, and H1 to H3 which were found here: each as a function which drives a world step by step.

Each is run with the real replica, where the checkers stay silent and the outcome is asserted, and with the mutants it
is to kill. A `kind` of replica is handed in; whatever it is, the schedule is the same.
"""

import re
from collections.abc import Callable

from tests.journals.core import schedules_1_to_12, schedules_13_to_23

from penstock.journals.core.replica import Replica
from penstock_lab.explorer_journal.world import JournalWorld

SCHEDULES: dict[str, Callable[[type[Replica]], JournalWorld]] = {
    name: schedule
    for module in (schedules_1_to_12, schedules_13_to_23)
    for name, schedule in vars(module).items()
    if re.match(r"[sh]\d*_|txn_", name)
}
