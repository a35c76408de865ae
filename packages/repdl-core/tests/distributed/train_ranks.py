"""A program of DistributedDataParallel with batch normalisation, dropout and checkpoints, which knows nothing of RepDL.

Rank 0 prints the digest of all that is trained, of all ranks.
"""

import argparse
import atexit
import faulthandler
import hashlib
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--from", dest="begin", metavar="CHECKPOINT")
parser.add_argument("--into", metavar="CHECKPOINT")
parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a checkpoint of each step; goes on from the last one")
parser.add_argument("--first", type=int, default=0, help="the first step")
parser.add_argument("--shift", type=int, help="a rank that has other data")
parser.add_argument("--fail", type=int, help="a rank that raises")
parser.add_argument("--kill", type=int, help="a rank that is killed")
parser.add_argument("--kill-backward", type=int, help="a rank that is killed in the third backward pass, once")
parser.add_argument("--wait", action="store_true", help="for ever")
args = parser.parse_args()
if args.wait:
    faulthandler.dump_traceback_later(100)  # where it hangs, if it has not come to the wait

is_own = not dist.is_initialized()  # under torchrun
if is_own:
    dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(12, 60), nn.BatchNorm1d(60), nn.GELU(), nn.Dropout(0.2), nn.Linear(60, 5))
model = DistributedDataParallel(net, bucket_cap_mb=0.002)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = torch.randn(16, world, 10, 12)
torch.manual_seed(100 + rank)


def state():
    """All that decides the next step. Generators and statistics of batch normalisation are each rank's own."""
    tensors, moments = get_state_dict(model, optimizer)
    own = {"generator": torch.get_rng_state(), "buffers": {name: x.clone() for name, x in net.named_buffers()}}
    return {"model": tensors, "optimizer": moments, f"rank {rank}": own}


def load(checkpoint):
    saved = state()
    dcp.load(saved, checkpoint_id=checkpoint)
    set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
    own = saved[f"rank {rank}"]
    for name, buffer in net.named_buffers():
        buffer.copy_(own["buffers"][name])
    torch.set_rng_state(own["generator"])


def killed(grad):
    if rank == args.kill_backward and step == 2 and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
        os.kill(os.getpid(), signal.SIGKILL)


if args.begin:
    load(args.begin)
done = args.keep / "done" if args.keep else None
if done and done.exists():
    args.first = int(done.read_text())
    load(args.keep / str(args.first))
    sys.stdout.write(f"from {args.first}\n")
net[2].register_full_backward_hook(lambda module, inputs, outputs: killed(outputs))
for step in range(args.first, args.steps):
    if step == 1 and args.fail is not None:
        dist.barrier()
        if rank == args.fail:
            atexit.register(time.sleep, 3)
            raise ValueError("this rank fails")
        time.sleep(1)
        raise RuntimeError("another rank has failed")  # and this one ends first
    if step == 1 and rank == args.kill:
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 1 and args.wait:
        faulthandler.cancel_dump_traceback_later()
        print("waiting", os.getpid(), flush=True)
        while True:
            signal.pause()
    x = data[step, rank] + (0.001 if rank == args.shift else 0)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if done:
        dcp.save(state(), checkpoint_id=args.keep / str(step + 1))
        dist.barrier()
        if rank == 0:
            done.with_suffix(".new").write_text(str(step + 1))
            done.with_suffix(".new").rename(done)
if args.into:
    dcp.save(state(), checkpoint_id=args.into)
mine = hashlib.sha256(b"".join(x.detach().numpy().tobytes() for x in model.state_dict().values())).hexdigest()
everyone = [None] * world
dist.all_gather_object(everyone, mine)
digest = hashlib.sha256("".join(everyone).encode()).hexdigest()
line = f"{'digest' if rank == 0 else 'rank'} {digest} {sys.argv[1:]}\n"
sys.stdout.write(line)  # at once: the ranks of torchrun share it
if is_own:
    dist.destroy_process_group()  # else torch may abort at the end (pytorch#190489)
