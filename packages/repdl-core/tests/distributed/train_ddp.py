"""A program of DistributedDataParallel that knows nothing of RepDL; it prints the digest of its parameters."""

import hashlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

is_own = not dist.is_initialized()  # under torchrun
if is_own:
    dist.init_process_group("gloo")
torch.manual_seed(0)
layers = torch.nn.Linear(20, 50), torch.nn.GELU(), torch.nn.Linear(50, 3)
model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=float(os.environ.get("BUCKET_MB", "25")))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    optimizer.step()
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
if dist.get_rank() == 0:
    print("digest", digest)
if is_own:
    dist.destroy_process_group()  # else torch may abort at the end (pytorch#190489)
