"""Groups that change from the classic protocol to the new one, and back.

migration         the change, while members work on
classic_speakers  members of a group of the new protocol that still speak the classic one
"""
