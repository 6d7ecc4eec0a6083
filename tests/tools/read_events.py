"""Prints what TensorBoard's own reader finds in a folder of events: for each tag a list of [step, value], and its times."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

accumulator = EventAccumulator(sys.argv[1], size_guidance={"tensors": 0, "scalars": 0})
accumulator.Reload()
found = {}
for tag in accumulator.Tags()["scalars"]:
    events = accumulator.Scalars(tag)
    found[tag] = [[event.step, event.value] for event in events]
    found["times of " + tag] = [event.wall_time for event in events]
print(json.dumps(found))
