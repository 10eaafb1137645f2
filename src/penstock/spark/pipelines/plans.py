"""Find the operators of a streaming plan that keep state from batch to batch. Design: spark-2.md S5.

An operator is row-wise if its name is on a list. Every other operator above a stream keeps state, and is named, since
a new version of Spark may have operators that this list does not have. The names are those of the *analyzed* plan.
Behind Spark Connect there is no JVM to ask, and the names come from the text of `explain`.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame

from penstock.spark.journals.java_source import has_jvm

__all__ = ["ROW_WISE", "keeping_state"]

ROW_WISE: Final = frozenset(
    {
        "ArrowEvalPython",
        "BatchEvalPython",
        "CTERelationDef",
        "CTERelationRef",
        "CollectMetrics",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "MapInArrow",
        "MapInPandas",
        "Project",
        "PythonMapInArrow",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SubqueryAlias",
        "Union",
        "UnresolvedHint",
        "View",
        "WithCTE",
    }
)
ANALYZED: Final = "== Analyzed Logical Plan =="
STREAM: Final = "~"  # before the name of an operator whose rows come from a stream
_BRANCHES: Final = " :+-"


class PlanNode(msgspec.Struct, frozen=True):
    """An operator of a plan, and whether rows of a stream come out of it."""

    name: str
    streams: bool
    children: tuple["PlanNode", ...] = ()


def keeping_state(frame: DataFrame) -> tuple[str, ...]:
    """Return the names of the operators of a streaming DataFrame that keep state; none if it is row-wise."""
    spark = frame.sparkSession
    root = _from_jvm(frame._jdf.queryExecution().analyzed()) if has_jvm(spark) else _from_text(_explained(frame))
    return tuple(dict.fromkeys(_stateful(root)))


def _stateful(node: PlanNode) -> Iterator[str]:
    for child in node.children:
        yield from _stateful(child)
    if not node.streams or not node.children:
        return
    is_lookup = node.name == "Join" and sum(child.streams for child in node.children) == 1
    if node.name not in ROW_WISE and not is_lookup:
        yield node.name


def _from_jvm(plan: Any) -> PlanNode:
    children = plan.children()
    found = tuple(_from_jvm(children.apply(at)) for at in range(children.size()))
    return PlanNode(plan.nodeName(), plan.isStreaming(), found)


def _explained(frame: DataFrame) -> str:
    text: str = frame._explain_string(extended=True)  # type: ignore[operator]
    return text


def _from_text(text: str) -> PlanNode:
    """Read the operators from the text of `explain(extended=True)`: children are indented below their parent."""
    section = text.partition(ANALYZED)[2].partition("\n== ")[0]
    rows = []
    for line in section.strip("\n").splitlines()[1:]:  # the first one is the schema
        row = line.lstrip(_BRANCHES)
        if row:
            rows.append((len(line) - len(row), row.split(maxsplit=1)[0].rstrip(",")))
    knows_streams = any(name.startswith(STREAM) for _, name in rows)  # else all of them may stream

    def read(at: int) -> tuple[PlanNode, int]:
        depth, name = rows[at]
        children, following = list[PlanNode](), at + 1
        while following < len(rows) and rows[following][0] > depth:
            child, following = read(following)
            children.append(child)
        streams = name.startswith(STREAM) or not knows_streams
        return PlanNode(name.lstrip(STREAM), streams, tuple(children)), following

    return read(0)[0]
