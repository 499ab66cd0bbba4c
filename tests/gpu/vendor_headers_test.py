"""That our declarations of NCCL, cuBLASLt and cuDNN (nccl_abi.h, cublaslt_abi.h, cudnn_abi.h and the tables of functions)
are those of NVIDIA's headers: vendor_headers.cc compiles, and does not where one of ours is another.

usage: vendor_headers_test.py COMPILER [TEST...]"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402

COMPILER = sys.argv.pop(1)
HEADERS = ROOT / ".cuda-headers"
CHECK = pathlib.Path("tests/gpu/vendor_headers.cc")


def compiled(root):
    """What the compiler complains of."""
    done = subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", "-isystem", HEADERS, "-isystem", HEADERS / "cccl",
                           "-I", root, "-I", root / "worker_runtime", root / CHECK],
                          text=True, capture_output=True, timeout=120)
    assert (done.returncode == 0) == ("error:" not in done.stderr), done.stderr
    return [line for line in done.stderr.splitlines() if "error:" in line]


class VendorHeaders(unittest.TestCase):
    def setUp(self):
        skip.need(skip.HEADERS, HEADERS.is_dir(), "no NVIDIA headers; scripts/setup --with-cuda-headers brings them")

    def test_our_declarations_are_those_of_the_headers(self):
        self.assertEqual(compiled(ROOT), [])

    def test_another_number_order_or_type_of_ours_does_not_compile(self):
        wrong = (("worker_runtime/cuda/nccl_abi.h", r"bfloat16 = 9", "bfloat16 = 10"),
                 ("worker_runtime/cuda/nccl_abi.h", r"(.*int max_ctas.*)\n(.*const char\* net_name.*)", r"\2\n\1"),
                 ("worker_runtime/cuda/nccl_library.h", r"(\*all_reduce\)\(const void\*, void\*, std::)size_t",
                  r"\1int32_t"),
                 ("trainer/layers/cuda/cublaslt_abi.h", r"gelu_aux_bias = 164", "gelu_aux_bias = 160"),
                 ("trainer/layers/cuda/cublaslt_library.h", r"std::int64_t stride", "std::int32_t stride"),
                 ("trainer/layers/cuda/cudnn_abi.h", r"weights_dw = 715", "weights_dw = 716"),
                 ("trainer/layers/cuda/cudnn_library.h", r"std::int64_t count,", "std::int32_t count,"))
        with tempfile.TemporaryDirectory(prefix="ddprun-headers-") as folder:
            root = pathlib.Path(folder)
            for name in ("worker_runtime/cuda", "trainer/layers/cuda", CHECK.parent):
                shutil.copytree(ROOT / name, root / name)
            for file, ours, other in wrong:
                text = (root / file).read_text()
                changed, count = re.subn(ours, other, text)
                self.assertEqual(count, 1, (file, ours))
                (root / file).write_text(changed)
                found = compiled(root)
                (root / file).write_text(text)
                self.assertEqual(len(found) > 0 and all("static assertion failed" in line for line in found), True,
                                 (file, ours, found))


if __name__ == "__main__":
    skip.main()
