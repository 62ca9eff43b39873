"""Generates the table of a worker's outcomes from the output of `strobe outcomes`."""

import json

from source import cell, code, run, table

HELPS = {(True, True): "waiting or a retry", (True, False): "waiting", (False, True): "a retry", (False, False): "nothing"}


def markdown():
    outcomes = json.loads(run("strobe", "outcomes", "--output", "json"))
    return table(["outcome", "how Strobe knows", "may resolve by itself through", "trace kept", "what to do"],
                 [[code(each["name"]), cell(each["detected"]), HELPS[each["waitable"], each["retryable"]],
                   "yes" if each["hasTrace"] else "no", cell(each["remedy"])] for each in outcomes])
