"""Equal data have equal fingerprints; another shape, type or value has another."""

import numpy as np

from fern.systems.trajectory import fingerprint_of


def test_a_fingerprint_depends_on_values_shape_and_type_and_not_on_the_layout_in_memory() -> None:
    values = np.arange(6.0).reshape(2, 3)
    assert fingerprint_of(np.asfortranarray(values)) == fingerprint_of(values)
    others = [values.reshape(3, 2), values.astype(np.float32), values + 1e-12]
    assert len({fingerprint_of(one) for one in (values, *others)}) == 4
