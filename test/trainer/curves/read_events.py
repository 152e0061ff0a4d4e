"""Prints what TensorBoard has read of a folder, as a line of JSON for each line of stdin: read_events.py FOLDER."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata

# 0 keeps every event; TensorBoard itself keeps a sample.
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})

for _ in sys.stdin:
    events.Reload()
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    hparams = metadata.parse_session_start_info_plugin_data(content).hparams
    print(
        json.dumps(
            {
                "scalars": {tag: [[e.wall_time, e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]},
                "hyperparameters": {name: getattr(value, value.WhichOneof("kind")) for name, value in hparams.items()},
                "config": events.Tensors("config")[-1].tensor_proto.string_val[0].decode(),
            }
        ),
        flush=True,
    )
