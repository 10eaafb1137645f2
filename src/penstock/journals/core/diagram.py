"""The append FSM as a Mermaid diagram, drawn from the table the core obeys. The page of the design holds a copy."""

from penstock.journals.core.append_fsm import TERMINAL, TRANSITIONS, AppendState

__all__ = ["state_diagram"]


def state_diagram() -> str:
    """`stateDiagram-v2` of every transition but those to stateError, which every state has."""
    lines = ["stateDiagram-v2", f"    [*] --> {AppendState.RESOLVE.value}"]
    for state, following in TRANSITIONS.items():
        lines += [f"    {state.value} --> {each.value}" for each in following]
    lines += [f"    {state.value} --> [*]" for state in TERMINAL]
    return "\n".join(lines) + "\n"
