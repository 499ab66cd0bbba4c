"""Installs the build into a fresh directory, builds a native trainer from the installed tree alone
with find_package(ddprun), and runs it alone and under the installed ddprun.

usage: install_test.py CMAKE BUILD_DIR [CXX_FLAGS]"""
import os
import subprocess
import sys
import tempfile

CMAKELISTS = """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(ddprun REQUIRED)
add_executable(consumer main.cc)
target_link_libraries(consumer PRIVATE ddprun::worker_runtime)
"""

MAIN = """
#include <ddp/ddp.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/distributed_sampler.h>
#include <ddp/snapshot.h>

#include <cstdio>

int main() {
  return ddp::record([] {
    const ddp::Context context = ddp::init();
    const ddp::Tensor sum = ddp::Tensor::from({context.rank() + 1.0F});
    context.group().all_reduce(sum);
    std::printf("rank %d of %d: %g\\n", context.rank(), context.world_size(), sum.item<float>());
    return 0;
  });
}
"""


def run(*command, **more):
    done = subprocess.run(command, text=True, capture_output=True, timeout=240, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    cmake, build_dir = sys.argv[1:3]
    flags = " ".join(sys.argv[3:])
    with tempfile.TemporaryDirectory() as folder:
        prefix, source = folder + "/prefix", folder + "/source"
        run(cmake, "--install", build_dir, "--prefix", prefix)
        os.mkdir(source)
        for name, text in (("CMakeLists.txt", CMAKELISTS), ("main.cc", MAIN)):
            with open(f"{source}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        run(cmake, "-G", "Ninja", "-S", source, "-B", folder + "/build", f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_CXX_FLAGS={flags}")
        run(cmake, "--build", folder + "/build")
        consumer, ddprun = folder + "/build/consumer", prefix + "/bin/ddprun"
        alone = run(consumer)
        assert alone == "rank 0 of 1: 1\n", alone
        both = run(ddprun, "--standalone", "--nproc-per-node", "2", consumer)
        assert sorted(both.splitlines()) == ["rank 0 of 2: 3", "rank 1 of 2: 3"], both
        # `train` is found beside the installed ddprun.
        out = run(ddprun, "--standalone", "--nproc-per-node", "2", "train", "linear", "2", "1",
                  cwd=folder)
        assert "Training finished: 2 epochs" in out, out


main()
