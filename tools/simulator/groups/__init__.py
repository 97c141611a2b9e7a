"""Consumer groups of a run.

member            what members of both protocols have in common
classic_consumer  a member of a classic group, eager or cooperative
new_consumer      a member of a new group (KIP-848)
view              what is committed in __consumer_offsets, and what must not be found in it
world             all groups of a run, and when they are done
faults            faults at the coordinators of groups
"""
