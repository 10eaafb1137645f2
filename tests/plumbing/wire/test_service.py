import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.wire import Service, WireCall
from penstock.plumbing.wire.service import MethodKind


async def echo(call: WireCall) -> bytes:
    return call.body


def test_methods_keep_their_order_which_is_their_number() -> None:
    service, other = Service(), Service()
    service.unary("b")(echo)
    other.unary("a")(echo)
    service.include(other)
    assert [(method.name, method.kind) for method in service.methods] == [
        ("b", MethodKind.UNARY),
        ("a", MethodKind.UNARY),
    ]


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_a_name_which_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="1 to 64"):
        Service().unary(name)(echo)


def test_a_name_is_given_once() -> None:
    service = Service()
    service.unary("echo")(echo)
    with pytest.raises(InvalidArgument, match="echo"):
        service.inline("echo")(lambda call: call.body)
    with pytest.raises(InvalidArgument, match="echo"):
        service.include(service)
