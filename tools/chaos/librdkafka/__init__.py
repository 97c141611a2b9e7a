"""What librdkafka does wrong, heard or worked around.

fatal_errors  a producer from which every fatal error is heard
renumbering   the mistake that writes messages twice, heard
punctual      calls that never end, ended
"""
