"""The rows of scripts/bench --trainers, made from its raw values."""
from measure_gpt2 import COMPILED, EAGER, OURS
from measure_snapshot import DCP, TORCH_SAVE
from row import Row, at_least, at_most, times
from series import Series


def _gpt2(name, found, least):
    """Two ranks beside the better of PyTorch's forms: tokens per second, and the processor time of a token, which
    other programs change less."""
    of = lambda who, which: Series([value[which] for value in found.get(who, {}).get("2", [])])
    theirs = [who for who in (EAGER, COMPILED) if of(who, 0)]
    for which, what, unit, better in ((0, "tokens per second", "", max), (1, "processor time of a token", "us", min)):
        form = better(theirs, key=lambda who: of(who, which).median, default=None)
        told = {EAGER: f"; {EAGER} is eager, its faster form", COMPILED: f"; {EAGER} is compiled, its faster form"}
        yield Row(f"{name}: {what}{told.get(form, '')}", of(OURS, which), of(form, which), unit,
                  (times(least, which == 0),), more=which == 0, digits=2)


def gpt2_tiny(found):
    yield from _gpt2("GPT-2 tiny (0.8 million parameters), f32, two ranks of one thread", found, 1.3)

    def longer(who, which):
        """Two ranks do twice as many tokens a step. Run by run, since their runs were neighbours."""
        worlds = found.get(who, {})
        both = zip(worlds.get("1", []), worlds.get("2", []))
        return Series([2 * one[0] / two[0] if which == 0 else two[1] / one[1] for one, two in both])
    yield Row("the same: time of a step of two ranks, of one rank's with half the samples; PyTorch is eager",
              longer(OURS, 0), longer(EAGER, 0), "", digits=2)
    yield Row("the same: processor time of a token of two ranks, of one rank's", longer(OURS, 1), longer(EAGER, 1), "",
              digits=2)


def gpt2_10m(found):
    yield from _gpt2("GPT-2 10m (10.8 million), f32", found, 1.05)


def gpt2_10m_bf16(found):
    yield from _gpt2("GPT-2 10m with products in bf16", found, 1.1)


def gpt2_products(found):
    def share(clock):
        """Of each step: its arithmetic per second, of that of its products alone."""
        return Series([(1 + run["attention_flop"] / run["linear_flop"]) * sgemm / step
                       for run in found.get("ddprun", [])
                       for step, sgemm in zip(run["step" + clock], run["sgemm" + clock])])
    yield Row("arithmetic per second of a whole step of 10m in f32, of oneDNN's sgemm at its shapes", share(""),
              Series(), "%", (at_least(0.9, "%"),))
    yield Row("the same per second of processor time", share("_cpu"), Series(), "%")


def resnet18(found):
    of = lambda who: Series([processor for _, processor in found.get(who, [])])
    forms = [of(who) for who in ("PyTorch", "PyTorch channels_last") if of(who)]
    better = min(forms, key=lambda series: series.median, default=Series())
    yield Row("ResNet-18, small stem, 32 images, one thread: processor time of a step; the faster of PyTorch's layouts",
              of(OURS), better, "s", (times(1),), digits=2)


def snapshot(found):
    megabytes = found.get("megabytes", 500)
    disk = Series(found.get("dd", [])).median
    take = lambda who, key: Series([run[key] for run in found.get(who, [])])
    rate = lambda who: Series([] if disk is None else [megabytes * 1e6 / run["save"] / disk
                                                       for run in found.get(who, [])])
    for who in (TORCH_SAVE, DCP):
        yield Row(f"snapshot of {megabytes} MB beside {who}: written, of the speed of `dd` with fsync", rate(OURS), rate(who),
                  "%", (at_least(0.8, "%"),) * (who == TORCH_SAVE), more=True)
        yield Row(f"the same beside {who}: the training stands still", take(OURS, "call"), take(who, "call"), "s")
    yield Row(f"the same beside {DCP}: a step while it is written, of one before", take(OURS, "slower"), take(DCP, "slower"), "",
              (at_most(1.05, ""),), digits=2)
    yield Row(f"the same beside {DCP}, in processor time", take(OURS, "harder"), take(DCP, "harder"), "",
              (at_most(1.05, ""),), digits=2)
    yield Row(f"the same beside {DCP}: processor time of other threads", take(OURS, "others"), take(DCP, "others"), "s")


ROWS = {"gpt2_tiny": gpt2_tiny, "gpt2_10m": gpt2_10m, "gpt2_10m_bf16": gpt2_10m_bf16, "gpt2_products": gpt2_products,
        "resnet18": resnet18, "snapshot": snapshot}
