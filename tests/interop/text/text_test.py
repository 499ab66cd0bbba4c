"""Our byte-pair tokenizer beside Hugging Face's tokenizers, and our reader and writer of model folders
beside transformers. The hub is not asked: vocabularies and models are made here."""
import pathlib
import statistics
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import interop  # noqa: E402
import multilingual  # noqa: E402
import skip  # noqa: E402

STORY = interop.DDPRUN.parents[1] / "tests" / "text_story"
COUNT = 10_000

# Trains a vocabulary on other texts of the same kind, and writes it in both forms.
TRAIN = """
import sys
sys.path.insert(0, sys.argv[1])
import multilingual
from tokenizers import ByteLevelBPETokenizer
tokenizer = ByteLevelBPETokenizer()
tokenizer.train_from_iterator(multilingual.texts(4000, 1), vocab_size=6000, min_frequency=2,
                              special_tokens=["<|endoftext|>"], show_progress=False)
tokenizer.save_model(sys.argv[2])
tokenizer.save(sys.argv[2] + "/tokenizer.json")
"""

# The tokens of the texts of one file, and how long a whole file takes.
ENCODE = """
import struct, sys
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
data, at, out = open(sys.argv[2], "rb").read(), 0, open(sys.argv[3], "wb")
while at < len(data):
    size, = struct.unpack_from("<I", data, at)
    ids = tokenizer.encode(data[at + 4:at + 4 + size].decode()).ids
    out.write(struct.pack(f"<I{len(ids)}i", len(ids), *ids))
    at += 4 + size
"""
SPEED = """
import sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
lines = open(sys.argv[2], newline="").read().splitlines(keepends=True)
begin = time.process_time()  # others may want the processor, too
ids = tokenizer.encode_batch_fast(lines)
print(time.process_time() - begin, sum(len(i.ids) for i in ids))
"""

# A model with random weights, in f32 in one file and in others; prints nothing.
SAVE = """
import sys, torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=300, n_positions=32, n_embd=24, n_layer=2, n_head=3,
                                   bos_token_id=299, eos_token_id=299))
for name, parameter in model.named_parameters():  # norms and biases are else 1 and 0
    torch.nn.init.normal_(parameter, std=0.2)
model.save_pretrained(sys.argv[1] + "/one")
model.save_pretrained(sys.argv[1] + "/many", max_shard_size="20KB")
model.transformer.save_pretrained(sys.argv[1] + "/bare")
model.to(torch.bfloat16).save_pretrained(sys.argv[1] + "/bf16")
model.to(torch.float16).save_pretrained(sys.argv[1] + "/f16")
"""

# For each pair of folders whether both give the same logits, bit for bit.
COMPARE = """
import sys, torch
from transformers import GPT2LMHeadModel
tokens = torch.arange(32)[None] * 7 % 300
def logits(folder):
    model, info = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.eval()(tokens).logits
with torch.no_grad():
    for one, other in zip(sys.argv[1::2], sys.argv[2::2]):
        print(torch.equal(logits(one), logits(other)))
"""

LOAD_TOKENIZER = """
import sys
from transformers import PreTrainedTokenizerFast
tokenizer = PreTrainedTokenizerFast.from_pretrained(sys.argv[1])
print(tokenizer.decode(tokenizer("hello \\u4e16\\u754c")["input_ids"]) == "hello \\u4e16\\u754c")
"""


def has_package(name):
    return any(interop.VENV.glob(f"lib/python*/site-packages/{name}/__init__.py"))


class Text(interop.JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("tokenizers", "transformers"):
            skip.need(skip.PYTORCH, has_package(name),
                      f"{name} is not in {interop.VENV}; scripts/setup --with-pytorch installs it")

    def run_it(self, *words, **more):
        done = subprocess.run(list(map(str, words)), text=True, capture_output=True,
                              timeout=interop.PATIENCE, env=interop.environment(**more))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def python(self, script, *words):
        # One thread on each side.
        return self.run_it(interop.PYTHON, "-c", script, *words, RAYON_NUM_THREADS=1,
                           TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE=1)

    def tokenizer(self):
        self.python(TRAIN, HERE, self.folder)
        return self.folder / "tokenizer.json"

    def write_texts(self, texts):
        path = self.folder / "texts"
        path.write_bytes(b"".join(struct.pack("<I", len(data)) + data
                                  for data in (text.encode() for text in texts)))
        return path

    def test_ten_thousand_texts_of_many_scripts_get_hugging_faces_tokens(self):
        tokenizer = self.tokenizer()
        texts = multilingual.texts(COUNT, 2)
        self.assertEqual(len(texts), COUNT)
        path = self.write_texts(texts)
        self.python(ENCODE, tokenizer, path, self.folder / "theirs")
        theirs = (self.folder / "theirs").read_bytes()
        self.assertGreater(len(theirs), 1_000_000)
        # Both forms of the files give the same.
        for ours in (tokenizer, self.folder / "vocab.json"):
            with self.subTest(form=ours.name):
                self.run_it(STORY, "encode", ours, path, self.folder / "ours")
                self.assertTrue(self.same(texts, (self.folder / "ours").read_bytes(), theirs))

    def same(self, texts, ours, theirs):
        """True, or fails with the first text whose tokens differ."""
        if ours == theirs:
            return True
        at = [0, 0]
        for text in texts:
            tokens = []
            for side, data in enumerate((ours, theirs)):
                count, = struct.unpack_from("<I", data, at[side])
                tokens.append(struct.unpack_from(f"<{count}i", data, at[side] + 4))
                at[side] += 4 + 4 * count
            self.assertEqual(*tokens, repr(text))
        return False

    def test_encoding_is_as_fast_as_hugging_faces_with_one_thread(self):
        tokenizer = self.tokenizer()
        path = self.folder / "text"
        path.write_text("".join(line + "\n" for line in multilingual.texts(4000, 3)[:-8]), newline="")
        size = path.stat().st_size / 1e6
        ours, theirs = [], []
        for _ in range(5):  # in turns
            ours.append(float(self.run_it(STORY, "speed", tokenizer, path).split()[0]))
            theirs.append(float(self.python(SPEED, tokenizer, path).split()[0]))
        rates = [size / statistics.median(times) for times in (ours, theirs)]
        print(f"{size:.1f} MB: ours {rates[0]:.1f} MB/s, Hugging Face's {rates[1]:.1f} MB/s")
        self.assertGreater(rates[0], rates[1])

    def test_a_model_of_transformers_is_read_and_written_so_that_transformers_sees_the_same(self):
        self.python(SAVE, self.folder)
        self.assertGreater(len(list((self.folder / "many").glob("*.safetensors"))), 2)
        pairs = [(self.folder / name, self.folder / f"{name}-ours")
                 for name in ("one", "many", "bare", "bf16", "f16")]
        for theirs, ours in pairs:
            self.run_it(STORY, "copy", theirs, ours)
        said = self.python(COMPARE, *(folder for pair in pairs for folder in pair))
        self.assertEqual(said, len(pairs) * "True\n")

    def test_a_folder_that_we_wrote_has_the_tokenizer_that_transformers_loads(self):
        tokenizer = self.tokenizer()
        self.python(SAVE, self.folder)
        ours = self.folder / "ours"
        self.run_it(STORY, "copy", self.folder / "one", ours, tokenizer)
        said = self.python(LOAD_TOKENIZER, ours)
        self.assertEqual(said, "True\n")


if __name__ == "__main__":
    skip.main()
