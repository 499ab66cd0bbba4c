"""A worker whose timer, as torch.distributed.elastic.timer writes it, expires."""
import json
import os
import time

request = {"version": 1, "pid": os.getpid(), "scope_id": "data", "signal": 9,
           "expiration_time": time.time() + 0.1}
with open(os.environ["TORCHELASTIC_TIMER_FILE"], "w") as file:
    file.write(json.dumps(request) + "\n")
deadline = time.monotonic() + 150
while not os.path.exists(os.path.join(os.environ["DUMP"], "over")) and time.monotonic() < deadline:
    time.sleep(0.05)
