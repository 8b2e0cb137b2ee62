"""Prints what TensorBoard's own reader finds in a folder, as JSON. Exit 3: tensorboard is not installed."""
import json
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

events = EventAccumulator(sys.argv[1])
events.Reload()
tags = events.Tags()
print(json.dumps({
    "scalars": {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]},
    "tensors": {tag: [t.tensor_proto.string_val[0].decode() for t in events.Tensors(tag)] for tag in tags["tensors"]},
}))
