"""Data directories that earlier versions wrote, one directory per version of `meta.properties`.

They are never changed. When a format changes, raise its version and `FORMAT_VERSION` of actors/broker/identity.py, run
`python -m tests.golden.make`, and add the directory that it makes.
"""
