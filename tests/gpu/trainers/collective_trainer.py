"""One rank of a job that only communicates; it knows nothing of Strobe. Commands on its input, one a line, are answered by a JSON object:

run N     N all-reduces; the microseconds of one
alone     begins one more without waiting for its end: the other rank does not come
"""

import json
import sys
import time

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    data = torch.ones(1 << 18, device="cuda")

    def reduce(count):
        for _ in range(count):
            dist.all_reduce(data)
        torch.cuda.synchronize()

    reduce(10)
    version = ".".join(map(str, torch.cuda.nccl.version()))
    print(json.dumps({"device": torch.cuda.get_device_name(0), "nccl": version, "rank": dist.get_rank()}), flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "alone":
            dist.all_reduce(data, async_op=True)
            print(json.dumps({"begun": True}), flush=True)
            continue
        count, before = int(arguments[0]), time.perf_counter()
        reduce(count)
        print(json.dumps({"us": (time.perf_counter() - before) / count * 1e6, "ended_ns": time.time_ns()}), flush=True)


main()
