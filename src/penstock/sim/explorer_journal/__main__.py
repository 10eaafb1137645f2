"""`python -m penstock.sim.explorer_journal [NAME ...] [--states N]`: search small worlds of the journal core.

Without a name, all of them. A violation is printed with its shortest schedule, and the exit status is 1.
"""

import sys

from penstock.sim.explorer.search import search
from penstock.sim.explorer_journal.configurations import CONFIGURATIONS
from penstock.sim.explorer_journal.model import JournalModel

STATES_MAX = 1_000_000


def main(arguments: list[str]) -> int:
    states_max = STATES_MAX
    if "--states" in arguments:
        at = arguments.index("--states")
        states_max = int(arguments[at + 1])
        arguments = arguments[:at] + arguments[at + 2 :]
    unknown = [name for name in arguments if name not in CONFIGURATIONS]
    if unknown:
        print(f"there is no configuration {unknown[0]!r}; there are: {', '.join(CONFIGURATIONS)}", file=sys.stderr)
        return 2
    is_clean = True
    for name in arguments or CONFIGURATIONS:
        outcome = search(JournalModel(CONFIGURATIONS[name]), states_max=states_max)
        extent = "all states" if outcome.is_exhausted else "bounded"
        result = outcome.violation or f"no violation, {extent}"
        print(
            f"{name}: {outcome.states:,} states, {outcome.transitions:,} transitions, depth {outcome.depth}: {result}"
        )
        for action, _ in outcome.schedule:
            print("  ", *map(str, action))
        is_clean = is_clean and outcome.violation is None
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
