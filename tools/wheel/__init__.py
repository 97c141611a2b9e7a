"""How the checkout becomes a wheel with one package, `barnabas`, beside the one that PySpark looks for.

In the checkout `actors`, `log`, `protocol` and `tools` are at the top; installed, they would take these names from the
projects of others. The wheel has them below `barnabas`, and what they import is renamed. Line numbers stay.

    python -m tools.wheel DIRECTORY     the wheel in an environment there, and its tests

renaming      of packages in import statements, and which file belongs where
hook          does that for hatchling when it builds the wheel
installation  the wheel, or the checkout, in a virtual environment
tests_copy    the tests, renamed as the wheel is
barnabas      the package that people import: public names and the command; an editable install has only this of it
"""
