"""python -m ddprun.accelerate launch ...: Hugging Face's `accelerate launch`, whose command calls inside
of torchrun. Here that is ddprun."""
import sys

try:
    import torch.distributed.run
    from accelerate.commands import accelerate_cli
except ImportError as missing:
    sys.exit(f"ddprun: python -m ddprun.accelerate needs PyTorch and accelerate ({missing}); install them with pip")

from ddprun import torchrun

if __name__ == "__main__":
    torch.distributed.run.run = torchrun.run
    sys.argv[0] = "accelerate"
    accelerate_cli.main()
