#!/usr/bin/env python3
"""wheel_headers.py DIR NAME==VERSION[:FOLDER]...: the C headers of these wheels, all into DIR, as each has
them below its folder `include`; with a FOLDER in that, the ones there alone. pip finds the wheels and speaks
with the index, by whatever its configuration says; of a wheel on the network only its list and the headers are
read (pip's lazy_wheel, HTTP ranges): those of CUDA's libraries have hundreds of megabytes, and their headers less
than one. For scripts/setup."""
import pathlib
import sys
import zipfile

from pip._internal.commands import create_command
from pip._internal.network.lazy_wheel import LazyZipOverHTTP
from pip._vendor.packaging.specifiers import SpecifierSet


def read_headers(wheel, wanted, folder):
    """The number of files."""
    headers = [name for name in wheel.namelist() if f"/include/{wanted}" in name and not name.endswith("/")]
    for name in headers:
        to = folder / name.split("/include/", 1)[1]
        if folder.resolve() not in to.resolve().parents:
            raise ValueError(f"{name} would lie outside of {folder}")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(wheel.read(name))
    return len(headers)


def main():
    folder, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    command = create_command("download")
    options, _ = command.parse_args(["--no-deps", "nothing"])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options=options, session=session)
        for one in wanted:
            wheel_name, _, part = one.partition(":")
            name, version = wheel_name.split("==")
            best = finder.find_best_candidate(name, SpecifierSet(f"=={version}")).best_candidate
            if best is None:
                sys.exit(f"wheel_headers: pip finds no {one} for this machine")
            link = best.link
            file = open(link.file_path, "rb") if link.is_file else LazyZipOverHTTP(link.url, session)
            with file, zipfile.ZipFile(file) as wheel:
                if not read_headers(wheel, part, folder):
                    sys.exit(f"wheel_headers: {one} has no headers")


if __name__ == "__main__":
    main()
