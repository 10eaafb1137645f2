from penstock_lab.explorer.interned import Interned


def test_equal_values_have_one_number() -> None:
    values = Interned[tuple[int, ...]]()
    assert [values.id_of(each) for each in ((1,), (2,), (1,))] == [0, 1, 0]
    assert values[1] == (2,)
    assert len(values) == 2
