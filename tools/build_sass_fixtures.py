"""Compile fixtures/sass/*.cu with nvcc into the cubins that the tests read, packed beside the sources.

    python tools/build_sass_fixtures.py [--folder /corpus/sass] [--check] [SOURCE[:ARCH]]...

What is compiled for which targets stands in fixtures/sass/FIXTURES.toml. The sources are copied to a neutral folder
first, so that line information names no private path. `--check` writes nothing and exits 1 where a rebuilt cubin
differs from the committed one (another nvcc gives other code: the version stands in the manifest). The libraries of
fixtures/sass/twins (two sources of one name in one library) are made where `twins` is named; nvcc gives their objects
new names each time, so they are not checked.
"""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "fixtures" / "sass"
PRIVATE = re.compile(rb"/(?:home|root|tmp|work|Users|build|mnt)/")


def units(wanted: list[str]) -> list[tuple[str, str, list[str]]]:
    """(source, arch, flags of its own) of the manifest's units, those named on the command line if any are."""
    manifest = tomllib.loads((HERE / "FIXTURES.toml").read_text("utf-8"))
    every = [(unit["source"], arch, unit.get("flags", [])) for unit in manifest["unit"] for arch in unit["archs"]]
    return [(s, a, more) for s, a, more in every if not wanted or s in wanted or f"{s}:{a}" in wanted]


def compile_one(source: str, arch: str, folder: Path, flags: list[str]) -> bytes:
    """The cubin of one source for one target; raises SystemExit with nvcc's words where it does not compile."""
    out = folder / f"{Path(source).stem}.{arch}.cubin"
    command = ["nvcc", "-cubin", f"-arch={arch}", *flags, source, "-o", out.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    data = out.read_bytes()
    if PRIVATE.search(data):
        raise SystemExit(f"{out.name}: holds a private path; compile in a neutral folder")
    return data


def twins(folder: Path) -> None:
    """An archive and a shared library of two sources that are both called kernel.cu."""
    for source in HERE.glob("twins/*/kernel.cu"):
        (folder / source.parent.name).mkdir(exist_ok=True)
        shutil.copy(source, folder / source.parent.name)
        command = ["nvcc", "-arch=sm_90", "-O3", "-lineinfo", "-Xcompiler", "-fPIC", "-c", "kernel.cu"]
        subprocess.run(command, cwd=folder / source.parent.name, check=True, timeout=600)
    for command in (["ar", "qcs", "libtwins.a"], ["gcc", "-shared", "-nostdlib", "-s", "-o", "libtwins.so"]):
        (folder / command[-1]).unlink(missing_ok=True)
        subprocess.run([*command, "scale/kernel.o", "shift/kernel.o"], cwd=folder, check=True, timeout=60)
        data = (folder / command[-1]).read_bytes()
        if PRIVATE.search(data):
            raise SystemExit(f"{command[-1]}: holds a private path; compile in a neutral folder")
        (HERE / "twins" / f"{command[-1]}.xz").write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/corpus/sass"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("wanted", nargs="*", metavar="SOURCE[:ARCH]")
    options = parser.parse_args(argv)
    flags = tomllib.loads((HERE / "FIXTURES.toml").read_text("utf-8"))["flags"]
    options.folder.mkdir(parents=True, exist_ok=True)
    for source in HERE.glob("*.cu*"):
        if source.suffix == ".xz":
            continue
        shutil.copy(source, options.folder)
    if "twins" in options.wanted:
        twins(options.folder)
        options.wanted.remove("twins")
        if not options.wanted:
            return 0
    stale = []
    with ThreadPoolExecutor(2) as pool:
        pairs = units(options.wanted)
        built = pool.map(lambda unit: compile_one(unit[0], unit[1], options.folder, [*flags, *unit[2]]), pairs)
        for (source, arch, _), data in zip(pairs, built, strict=True):
            packed = HERE / f"{Path(source).stem}.{arch}.cubin.xz"
            if options.check:
                if not packed.is_file() or lzma.decompress(packed.read_bytes()) != data:
                    stale.append(packed.name)
            else:
                packed.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
                print(f"{packed.name}: {len(data):,} bytes, {packed.stat().st_size:,} packed")
    for name in stale:
        print(f"{name}: differs from what nvcc makes of its source", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
