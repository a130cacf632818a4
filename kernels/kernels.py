#!/usr/bin/env python3
"""Compile kernels/*.cu to PTX with NVRTC and assemble the PTX with ptxas for every GPU generation. No GPU, no toolkit.

    kernels.py            write kernels/ptx/*.ptx
    kernels.py --check    fail if a committed PTX is not what its source gives, or if a generation refuses it

Needs: pip install --no-deps nvidia-cuda-nvrtc-cu12==12.0.140 nvidia-cuda-nvcc-cu12==12.9.86
NVRTC 12.0 writes PTX 8.0, which every driver from CUDA 12.0 (525) on accepts; its output is the same in any folder. The
first line of each PTX names the hash of the sources behind it (common.cuh, then the .cu), which a test compares."""
import argparse
import ctypes
import hashlib
import pathlib
import re
import site
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent
GENERATIONS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
OPTIONS = ["--gpu-architecture=compute_80", "--std=c++17", f"--include-path={ROOT}"]


def find(relative):
    """A file of one of NVIDIA's wheels."""
    for folder in site.getsitepackages() + [site.getusersitepackages()]:
        path = pathlib.Path(folder) / "nvidia" / relative
        if path.exists():
            return path
    sys.exit(f"{relative} not found\n\n{__doc__}")


class Nvrtc:
    def __init__(self):
        self.lib = ctypes.CDLL(str(find("cuda_nvrtc/lib/libnvrtc.so.12")))

    def text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.lib, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode()

    def compile(self, source):
        """PTX of one .cu file; exits with the compiler's messages if it has errors."""
        program = ctypes.c_void_p()
        name = source.name.encode()
        if self.lib.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), name, 0, None, None):
            sys.exit("NVRTC does not start")
        options = [o.encode() for o in OPTIONS]
        failed = self.lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = self.text(program, "ProgramLog").strip()
        if log:
            print(log, file=sys.stderr)
        if failed:
            sys.exit(f"{source.name}: NVRTC failed")
        return self.text(program, "PTX")


def source_hash(source):
    return hashlib.sha256((ROOT / "common.cuh").read_bytes() + source.read_bytes()).hexdigest()


def assemble(ptx, generation):
    """(registers of the hungriest kernel, bytes spilled); raises with ptxas' words if it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        command = [find("cuda_nvcc/bin/ptxas"), f"-arch={generation}", "-v", path, "-o", path.with_suffix(".cubin")]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr)
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", run.stderr)]
    spilled = [int(n) for n in re.findall(r"(\d+) bytes spill stores", run.stderr)]
    return max(registers), sum(spilled)


def report(name, ptx):
    """Prints one line a source; the number of generations that refuse it."""
    refused, words = 0, []
    for generation in GENERATIONS:
        try:
            registers, spilled = assemble(ptx, generation)
            words.append(f"{generation} {registers}" + (f" ({spilled} bytes SPILLED)" if spilled else ""))
        except RuntimeError as error:
            print(f"{name} {generation}: {error}", file=sys.stderr)
            refused += 1
    print(f"{name}: registers at most {', '.join(words)}")
    return refused


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    check = arguments.parse_args().check
    nvrtc, bad = Nvrtc(), 0
    (ROOT / "ptx").mkdir(exist_ok=True)
    for source in sorted(ROOT.glob("*.cu")):
        ptx = f"// {source.name} sha256 {source_hash(source)}, NVRTC 12.0.140\n" + nvrtc.compile(source)
        target = ROOT / "ptx" / f"{source.stem}.ptx"
        if not check:
            target.write_text(ptx)
        elif not target.exists() or target.read_text() != ptx:
            print(f"ptx/{target.name} is not what {source.name} gives: run kernels/kernels.py", file=sys.stderr)
            bad += 1
        bad += report(source.name, ptx)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
