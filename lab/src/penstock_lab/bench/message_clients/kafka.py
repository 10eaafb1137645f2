"""Kafka's client at work, and librdkafka's mock cluster: a script for a Python with `confluent-kafka`.

python kafka.py cluster                          prints its address, and serves until its input ends
python kafka.py one|lists|read ADDRESS COUNT     prints processor time and the clock
"""

import json
import sys
import time
from typing import Any

LIST = 1_000
TOPIC = "bench"
KEPT = 20_000  # messages that the mock cluster surely keeps of a partition


def value_of(number: int) -> bytes:
    """The bytes of the message that Penstock's side publishes; made per message, as there."""
    value = {"account": f"account-{number % 100_000:05}", "amount": number / 100, "kind": "deposit", "number": number}
    return json.dumps(value, separators=(",", ":")).encode()


def cluster() -> None:
    from confluent_kafka import Producer

    owner = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3})
    brokers = owner.list_topics(timeout=10).brokers.values()
    print(",".join(f"{each.host}:{each.port}" for each in brokers), flush=True)
    sys.stdin.read()


def publish(address: str, values: list[dict[str, Any]], step: int) -> tuple[float, float]:
    """Encode and produce each value; wait until all are acknowledged."""
    import msgspec
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "acks": "all", "queue.buffering.max.messages": 200_000})
    encode = msgspec.json.Encoder().encode
    producer.produce(TOPIC, encode(values[0]), partition=0)
    producer.flush()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    for begin in range(0, len(values), step):
        if step == 1:
            while True:
                try:
                    producer.produce(TOPIC, encode(values[begin]), partition=0)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        else:
            batch = [{"value": encode(value)} for value in values[begin : begin + step]]
            while len(producer) > 100_000:
                producer.poll(0.01)
            if producer.produce_batch(TOPIC, batch, partition=0) != len(batch):
                raise SystemExit("librdkafka took a part of a batch only")
            producer.poll(0)
    if producer.flush():
        raise SystemExit("librdkafka did not deliver all messages")
    return time.process_time() - began_cpu_s, time.perf_counter() - began_s


def read(address: str, count: int) -> tuple[float, float]:
    """Read a stretch of a partition again and again, message by message, and decode each."""
    import msgspec
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "isolation.level": "read_committed"})
    decode = msgspec.json.Decoder().decode
    began_s = began_cpu_s = 0.0
    for turn in range(1 + count // KEPT):
        if turn == 1:  # after a warm-up
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        left = KEPT
        while left > 0:
            for message in consumer.consume(LIST, 1.0):
                if message.error() is None and decode(message.value())["number"] >= 0:
                    left -= 1
    found = time.process_time() - began_cpu_s, time.perf_counter() - began_s
    consumer.close()
    return found


def main() -> None:
    if sys.argv[1] == "cluster":
        cluster()
        return
    what, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "read":
        cpu_s, seconds = read(address, count)
    else:
        values = [json.loads(value_of(number)) for number in range(count)]
        cpu_s, seconds = publish(address, values, 1 if what == "one" else LIST)
    print(json.dumps({"cpu_s": cpu_s, "s": seconds}))


if __name__ == "__main__":
    main()
