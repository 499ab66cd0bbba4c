"""GPT-2 in plain PyTorch, with the parameters of Hugging Face's GPT2LMHeadModel under the same names
and in the same order as trainer/gpt2/parameters.h."""
import dataclasses

import torch
import torch.nn.functional as F


@dataclasses.dataclass
class Config:
    layers: int = 4
    heads: int = 4
    channels: int = 128
    context: int = 64
    vocabulary: int = 257


class Block(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config.channels
        self.heads = config.heads
        zeros = lambda *shape: torch.nn.Parameter(torch.zeros(*shape))
        self.ln_1_weight, self.ln_1_bias = zeros(c), zeros(c)
        self.attn_weight, self.attn_bias = zeros(c, 3 * c), zeros(3 * c)
        self.attn_proj_weight, self.attn_proj_bias = zeros(c, c), zeros(c)
        self.ln_2_weight, self.ln_2_bias = zeros(c), zeros(c)
        self.fc_weight, self.fc_bias = zeros(c, 4 * c), zeros(4 * c)
        self.fc_proj_weight, self.fc_proj_bias = zeros(4 * c, c), zeros(c)

    def forward(self, x):
        batch, time, c = x.shape
        norm = F.layer_norm(x, (c,), self.ln_1_weight, self.ln_1_bias, 1e-5)
        qkv = torch.addmm(self.attn_bias, norm.view(-1, c), self.attn_weight)
        q, k, v = (part.view(batch, time, self.heads, c // self.heads).transpose(1, 2)
                   for part in qkv.view(batch, time, 3 * c).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).reshape(-1, c)
        x = x + torch.addmm(self.attn_proj_bias, y, self.attn_proj_weight).view(batch, time, c)
        norm = F.layer_norm(x, (c,), self.ln_2_weight, self.ln_2_bias, 1e-5)
        wide = torch.addmm(self.fc_bias, norm.view(-1, c), self.fc_weight)
        wide = F.gelu(wide, approximate="tanh")
        return x + torch.addmm(self.fc_proj_bias, wide, self.fc_proj_weight).view(batch, time, c)


class Gpt2(torch.nn.Module):
    """Weights are normal, more spread than a first initialisation, so that nothing is near 0."""

    def __init__(self, config, seed=1, deviation=0.08):
        super().__init__()
        self.config = config
        self.wte = torch.nn.Parameter(torch.zeros(config.vocabulary, config.channels))
        self.wpe = torch.nn.Parameter(torch.zeros(config.context, config.channels))
        self.h = torch.nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f_weight = torch.nn.Parameter(torch.zeros(config.channels))
        self.ln_f_bias = torch.nn.Parameter(torch.zeros(config.channels))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.normal_(0, deviation, generator=generator)
                if "ln_" in name and name.endswith("weight"):
                    parameter += 1

    def ordered(self):
        """(name, parameter) in the order of gpt2_parameters()."""
        named = dict(self.named_parameters())
        first = ["wte", "wpe"]
        last = ["ln_f_weight", "ln_f_bias"]
        return [(name, named[name])
                for name in first + [n for n in named if n.startswith("h.")] + last]

    def loss(self, inputs, targets):
        x = self.wte[inputs] + self.wpe[:inputs.shape[1]]
        for block in self.h:
            x = block(x)
        x = F.layer_norm(x, (x.shape[-1],), self.ln_f_weight, self.ln_f_bias, 1e-5)
        logits = x @ self.wte.t()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1),
                               ignore_index=-100)

    def optimizer(self, rate, decay, betas, fused=False):
        matrices = [p for _, p in self.ordered() if p.dim() >= 2]
        others = [p for _, p in self.ordered() if p.dim() < 2]
        return torch.optim.AdamW([{"params": matrices, "weight_decay": decay},
                                  {"params": others, "weight_decay": 0.0}], lr=rate, betas=betas,
                                 fused=fused)
