"""One pass over a column: batches in, statistics out, memory of fixed size.

- ``runs``: runs of one value, of zeros, of missing values; missing-value codes.
- ``common``: the commonest values.
- ``quantiles``: an even sample and the extreme values.
- ``walk``: differences, for the random-walk test.
- ``picture``: mean, minimum and maximum along the rows.
- ``column``: all of them together.
"""
