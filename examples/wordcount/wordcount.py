"""Counts words: lines in, counts out. Its state is a dict, kept exactly once with the offsets it has read up to."""

import penstock


class WordCount(penstock.Application[dict[str, int]]):
    """Counts every word, and publishes each new count."""

    def consume(self, message: penstock.Message, store: dict[str, int], publish: penstock.Publish) -> None:
        for word in message.value["text"].lower().split():
            store[word] = store.get(word, 0) + 1
            publish("words/counts", {"word": word, "count": store[word]})
