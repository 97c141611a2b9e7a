"""Committed offsets.

committed      how far groups have read, and what open transactions hold back
requests       commit, fetch, delete, expire
marker_guards  whether a transaction ended since its coordinator was asked
"""
