"""An example for each public name, as the page of the API prints it: the body of the function of that name.

A test runs them in this order, in a folder where `penstock up` runs (`tests/api/test_api_page.py`).
"""

# mypy: disable-error-code="no-untyped-def"


def connect():
    import penstock

    with penstock.connect() as stock:  # what `penstock up` runs in this folder
        print(stock.lakes.repositories())
    with penstock.connect("host:7070", lake="http://host:8000", token="…") as stock:
        print(stock)  # connections are made when they are first needed


def open():
    import penstock

    with penstock.open("data") as stock:  # a private server, for as long as the block
        stock.journal("shop/orders").create(exists_ok=True).append(b"one append\n")


def aio():
    import asyncio

    import penstock

    async def main() -> None:
        async with penstock.aio.connect() as stock:
            events = await stock.journal("shop/events").create(exists_ok=True)
            async with events.publisher() as publish:
                await publish({"sku": "kettle"})
            print([message.value async for message in events.read()])

    asyncio.run(main())


def Stock():
    import penstock

    with penstock.connect() as stock:
        for name in ("shop/orders", "shop/payments"):
            stock.journal(name).create(exists_ok=True)
        with stock.transaction() as changes:  # readers see both messages, or none
            changes.publish("shop/orders", {"id": 7, "sku": "kettle"})
            changes.publish("shop/payments", {"order": 7, "amount": "39.90"})


def Journal():
    import polars

    import penstock

    with penstock.connect() as stock:
        orders = stock.journal("shop/sold").create(exists_ok=True)
        orders.publish_table(polars.DataFrame({"sku": ["kettle", "cup"], "n": [2, 6]}))  # all rows, or none
        for message in orders.read():  # each committed message, once
            print(message.published_at, message.value)
        print(orders.info())
        print(orders.tail(1)[0].value)
        print(orders.to_polars().group_by("sku").sum())


def Publisher():
    import penstock

    with penstock.connect() as stock:
        orders = stock.journal("shop/orders").create(exists_ok=True)
        with orders.publisher(patience=30) as publish:  # batches, keeps the order, outlives restarts of brokers
            publish({"id": 8, "sku": "cup"})
            publish.flush()  # on every replica now; the end of the block does the same


def Message():
    import penstock

    with penstock.connect() as stock:
        message = stock.journal("shop/orders").tail(1)[0]
        print(message.journal, message.begin, message.end, message.published_at, message.value)


def Appended():
    import penstock

    with penstock.connect() as stock:
        raw = stock.journal("shop/raw").create(exists_ok=True)
        done = raw.append(b"all of these bytes, or none\n", timeout=5)
        print(done.begin, done.end)


def JournalSpec():
    import penstock

    with penstock.connect() as stock:
        spec = penstock.JournalSpec(name="shop/clicks", replication=1, fsync=True)
        stock.journals.create(spec)
        print(stock.journal("shop/clicks").info().spec == spec or "the server has added its store")


def FragmentSpec():
    import penstock

    with penstock.connect() as stock:
        week = penstock.FragmentSpec(length=64 << 20, retention_ms=7 * 24 * 3_600_000)
        stock.journal("shop/views").create(fragment=week, exists_ok=True)


def Lake():
    import penstock

    with penstock.connect() as stock:
        lake: penstock.Lake = stock.lakes
        lake.repository("shop").create(exists_ok=True)
        print(lake.repositories())


def Repository():
    import penstock

    with penstock.connect() as stock:
        shop = stock.lake("shop")
        main = shop.branch("main")
        main["prices.csv"] = b"kettle,39.90\n"
        main.commit("prices")
        experiment = shop.branch("experiment", source="main")
        experiment["prices.csv"] = b"kettle,36.90\n"
        experiment.commit("a sale")
        shop.merge("experiment", into="main")
        experiment.delete()


def Branch():
    import pandas

    import penstock

    with penstock.connect() as stock:
        main = stock.lake("shop").branch("main")
        prices = pandas.DataFrame({"sku": ["kettle"], "price": [36.9]})
        main["prices.parquet"] = prices  # or bytes, a Path, an open file
        print(list(main), main.to_polars("prices.parquet"))
        main.commit("prices as a table")
        with main.transaction("two files, one commit, or nothing") as changes:
            changes["a"] = b"a"
            changes["b"] = b"b"
        for change in stock.lake("shop").ref("main~1").diff("main"):  # what main changed since main~1
            print(change.kind.value, change.path)


def Commit():
    import penstock

    with penstock.connect() as stock:
        for commit in stock.lake("shop").branch("main").log(limit=3):
            print(commit.id, commit.message, commit.metadata)


def QuorumLog():
    import penstock

    with penstock.connect() as stock, stock.quorum_log() as log:
        for transactions in log.subscribe(follow=False):
            print(transactions)
            break
        print(list(log.status()))


def Application():
    import penstock

    class Count(penstock.Application[dict[str, int]]):  # penstock consumer run count.py
        def consume(self, message: penstock.Message, store: dict[str, int], publish: penstock.Publish) -> None:
            sku = message.value["sku"]
            store[sku] = store.get(sku, 0) + 1
            publish("shop/counts", {"sku": sku, "count": store[sku]})

    print(Count())


def Publish():
    import penstock

    def forward(message: penstock.Message, store: dict[str, int], publish: penstock.Publish) -> None:
        publish("shop/copies", message.value, key=message.value["sku"])  # takes effect with the store's changes, once

    print(forward)


def ShardDefinition():
    import penstock

    definition = penstock.ShardDefinition(id="counts-0", sources={"shop/orders": 0}, recovery_log="shop/counts-log")
    definition.validate()  # penstock shards apply has the same fields, in YAML


def Pipeline():
    from penstock.spark import Pipeline, journal, lake

    pipeline = Pipeline("revenue")  # penstock pipeline run revenue.py

    @pipeline.flow(source=journal("shop/orders", schema="sku string, n int"), sink=lake("lake://shop@main/orders"))
    def orders(raw):
        return raw.where("n > 0")

    print(orders)


def PenstockError():
    import penstock

    with penstock.connect() as stock:
        try:
            stock.journal("shop/nothing").append(b"...")
        except penstock.PenstockError as error:
            print(error.written.value, error.retryable, error.next_step)
            print(error.describe())


def Refused():
    import penstock

    with penstock.connect() as stock:
        try:
            stock.journal("shop/orders").create()
        except penstock.Refused as error:  # the service understood, and said no
            print(error.message)


def Indeterminate():
    import penstock

    with penstock.connect() as stock:
        try:
            stock.journal("shop/raw").append(b"...", timeout=5)
        except penstock.Indeterminate as error:  # it may have been written: ask before you repeat it
            print(error.next_step)


def Unavailable():
    import penstock

    with penstock.connect() as stock:
        try:
            stock.journal("shop/raw").append(b"...", timeout=5)
        except penstock.Unavailable as error:  # nothing was written: the same call may succeed later
            print(error.message)


def NotFound():
    import penstock

    with penstock.connect() as stock:
        try:
            stock.lake("shop").branch("main").read("nothing")
        except penstock.NotFound as error:
            print(error.message)


def PreconditionFailed():
    import penstock

    with penstock.connect() as stock:
        raw = stock.journal("shop/raw")
        try:
            raw.append(b"only at the beginning", offset=0)
        except penstock.PreconditionFailed as error:
            print(error.message)


def InvalidArgument():
    import penstock

    with penstock.connect() as stock:
        try:
            stock.journal("no name/").create()
        except penstock.InvalidArgument as error:
            print(error.message)
