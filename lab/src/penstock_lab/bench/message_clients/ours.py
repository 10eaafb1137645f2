"""One client of Penstock at work: a script for the Python of any tree. It prints its processor time and the clock.

python ours.py one|lists|read ADDRESS COUNT
"""

import json
import sys
import time
from typing import Any

import penstock

LIST = 1_000
JOURNAL = "bench/clients"


def value_of(number: int) -> dict[str, Any]:
    """A message of some 75 bytes."""
    return {"account": f"account-{number % 100_000:05}", "amount": number / 100, "kind": "deposit", "number": number}


def publish(journal: Any, values: list[dict[str, Any]], step: int) -> None:
    with journal.publisher() as publisher:
        if step == 1:
            for value in values:
                publisher(value)
        else:
            for begin in range(0, len(values), step):
                publisher(*values[begin : begin + step])


def read(journal: Any, count: int) -> None:
    """Read messages one by one, and look at each value."""
    left = count
    for message in journal.read(0):
        if message.value["number"] >= 0:
            left -= 1
        if not left:
            return
    raise SystemExit(f"the journal has {left} messages less than {count}")


def main() -> None:
    what, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with penstock.connect(address) as stock:
        journal = stock.journal(JOURNAL).create(replication=1, exists_ok=True)
        publish(journal, [value_of(number) for number in range(LIST)], LIST)  # connections, and code that is new
        values = [] if what == "read" else [value_of(number) for number in range(count)]
        if what == "read":
            read(journal, LIST)
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        if what == "read":
            read(journal, count)
        else:
            publish(journal, values, 1 if what == "one" else LIST)
        print(json.dumps({"cpu_s": time.process_time() - began_cpu_s, "s": time.perf_counter() - began_s}))


if __name__ == "__main__":
    main()
