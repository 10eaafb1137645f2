"""The state diagram: the page holds what the code says, and the code does what the table says."""

import re
from pathlib import Path

from penstock.journals.core.append_fsm import HANDLERS, TERMINAL, TRANSITIONS, Append, AppendState
from penstock.journals.core.diagram import state_diagram

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "design" / "journals.md"


def test_the_page_has_the_diagram_of_today() -> None:
    found = re.search(r"```mermaid\n(stateDiagram-v2\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert found[1] == state_diagram(), (
        "docs/explanation/design/journals.md: put penstock.journals.core.diagram.state_diagram() there"
    )


def test_every_state_of_the_document_is_there_with_its_own_handler() -> None:
    document = (
        "Resolve AcquirePipeline StartPipeline SendPipelineSync RecvPipelineSync UpdateAssignments "
        "AwaitDesiredReplicas ValidatePreconditions StreamContent ReadAcknowledgements Error Proxy Finished"
    )
    assert [state.value for state in AppendState] == [f"state{name}" for name in document.split()]
    assert TRANSITIONS.keys() == set(AppendState)
    for state, name in HANDLERS.items():
        assert callable(getattr(Append, name)), state
    assert {*HANDLERS, *TERMINAL} == set(AppendState)
