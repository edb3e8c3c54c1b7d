"""Which public programs are learnt from and which are judged once: decided by their names alone.

    python tools/field/split.py HECBENCH [--out tools/field/split.toml]

HECBENCH is a checkout of zjin-lcf/HeCBench. A program is a candidate when its CUDA version needs nothing but the
toolkit (no library headers, no data files, no managed memory), is small, and prints the outcome of a check. Its half is
the last bit of the SHA-256 of its name: 0 learns, 1 is judged. Programs that measure a feature of the machine or of the
API instead of computing something (UNFIT) are in neither half, nor are those that need files (NEEDS_FILES).

When both halves were read a third list was needed, `later`: what the first rule left out for its length, for headers of
the toolkit that are templates alone (CUB, Thrust, WMMA), for files that lie beside it, or because it prints no verdict.
With what was left of the learning side it is split in the same way: labels/learn2.toml and labels/judged5.toml. What
was left of it then is labels/judged6.toml. labels/judged7.toml is of other suites: all programs of llm.c's dev/cuda
whose kernels are their own (version: the SHA-256 of `llmc/<name>` modulo the number of their own versions), and those
of NVIDIA's cuda-samples that compute something on the command line without libraries, data files or managed memory and
have no namesake in HeCBench. labels/judged8.toml is of what people learn and compare compilers by: all programs of
PolyBench/GPU, and those of two books, a vendor's blog and a collection of tutorials that compute something with the
CUDA runtime alone. Where several of a collection solve one problem (BOOKS: a problem's versions), the SHA-256 of
`collection/problem` modulo their number names one. labels/judged9.toml is of what was left of HeCBench (REST): programs
whose input files do not come with it but can be made by a few lines, that call a library beside kernels of their own,
use managed memory or are longer than the rules above allow. labels/library.toml is of kernels of libraries that people
use: library.toml names them and how they were chosen, library2.toml those that the same rule names next, library3.toml
to library17.toml those of other repositories.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

CHECKS = re.compile(r"PASS|FAIL|verif|mismatch|checksum|reference|correct|RMSE|error rate", re.IGNORECASE)
LIBRARIES = re.compile(r'#include\s*[<"](cublas|cusparse|cusolver|cufft|curand|cudnn|nccl|thrust|cub/|mma|boost|omp)')
FILES = re.compile(r"\.\./(?!include)[\w]+/|\.(txt|dat|bin|bmp|png|jpg|ppm|pgm|csv|mtx|gz|egr)\b")
SOURCES = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".c")
MAX_FOLDER, MAX_CODE, MAX_LATER = 300_000, 60_000, 120_000  # bytes
HEAVY = re.compile(r'#include\s*[<"](cublas|cusparse|cusolver|cufft|cudnn|nccl|boost|omp|mpi|nvtx|cutlass)')
NAMED_FILE = re.compile(r"[\w./-]+\.(?:txt|dat|bin|bmp|png|jpg|ppm|pgm|csv|mtx|gz|egr)\b|\.\./(?!include)[\w./-]+")
UNFIT = (
    "aligned-types assert atomicAggregate atomicCAS atomicCost atomicPerf babelstream clink cmembench "
    "concurrentKernels ert fma graphExecution intrinsics-cast intrinsics-simd mixbench overlap p2p pointerchase "
    "shmembench simpleMultiDevice streamOrderedAllocation streamPriority tensorAccessor threadcpy threadfence triad "
    "zerocopy"
).split()
# Of the third list, by their names as well: what measures the machine, and programs that the halves have already.
LATER_UNFIT = (
    "accuracy black-scholes clock conversion dispatch f16atomic kernelLaunch lavaMD loopback maxFlops memtest myocyte "
    "pathfinder pitch wmma"
).split()
NEEDS_FILES = "cc cmp columnarSolver gc hybridsort mnist qtclustering tpacf".split()
# labels/<it>.toml, as they came
HALVES = (
    "learn judged judged2 judged3 judged4 learn2 judged5 judged6 judged7 judged8 judged9 "
    "library library2 library3 library4 library5 library6 library7 library8 library9 library10 library11 library12 "
    "library13 library14 library15 library16 library17"
).split()
# Of labels/judged9.toml, by their names: what measures the machine, needs a framework or other files is out.
REST = (
    "aes amgmk attentionMultiHeadKVCache axhelm bfs cc cfd crs d2q9-bgk fdtd3d floydwarshall2 gc geodesic gibbs "
    "haversine hotspot hotspot3D hungarian kmeans lanczos logan lulesh lut-gemm lzss mcpr meanshift medianfilter "
    "mpc mriQ nbnxm nms nn opticalFlow pcc permutate qkv rayleighBenardConvection recursiveGaussian s3d sa sad sc "
    "secp256k1 simplemoc snake sobel sobol spmv sptrsv ss stsg svd3x3 sw4ck triad tridiagonal urng word2vec"
).split()
# Of other suites (labels/judged7.toml): number of own versions of each of llm.c's kernels; programs of cuda-samples.
LLMC = {
    "adamw": 2, "attention_backward": 8, "attention_forward": 2, "classifier_fused": 5, "crossentropy_forward": 1,
    "crossentropy_softmax_backward": 1, "encoder_backward": 2, "encoder_forward": 3, "fused_residual_forward": 6,
    "gelu_backward": 2, "gelu_forward": 2, "global_norm": 4, "layernorm_backward": 10, "layernorm_forward": 6,
    "matmul_backward_bias": 8, "matmul_forward": 2, "permute": 1, "residual_forward": 2, "softmax_forward": 8,
    "trimat_forward": 5,
}  # fmt: skip
SAMPLES = (
    "binaryPartitionCG cudaTensorCoreGemm globalToShmemAsyncCopy immaTensorCoreGemm jacobiCudaGraphs matrixMul "
    "reduction reductionMultiBlockCG scalarProd shfl_scan tf32TensorCoreGemm threadFenceReduction transpose "
    "warpAggregatedAtomicsCG"
).split()
# Of labels/judged8.toml: programs of sgrauerg/polybenchGpu, and of PacktPublishing/Learn-CUDA-Programming (learn),
# brucefan1983/CUDA-Programming (book), NVIDIA-developer-blog/code-samples (blog) and
# Liu-xiandong/How_to_optimize_in_GPU (tutorial).
POLYBENCH = (
    "2DCONV 2MM 3DCONV 3MM ADI ATAX BICG CORR COVAR DOITGEN FDTD-2D GEMM GEMVER GESUMMV GRAMSCHM JACOBI1D JACOBI2D LU "
    "MVT SYR2K SYRK"
).split()
CH2, CH3 = "Chapter02/02_memory_overview", "Chapter03/03_cuda_thread_programming"
CH7, MD = "Chapter07/07_parallel_programming_pattern", "src/13-md"
BOOKS = {
    "learn/sgemm": [f"{CH2}/01_sgemm/sgemm.cu", f"{CH7}/01_sgemm_optimization/sgemm.cu"],
    "learn/layout": [f"{CH2}/03_aos_soa/aos.cu", f"{CH2}/03_aos_soa/soa.cu"],
    "learn/transpose": [f"{CH2}/04_matrix_transpose/{n}.cu" for n in ("conflict_solved", "matrix_transpose")],
    "learn/reduction": [
        f"{CH3}/{n.replace('/', '/reduction_')}.cu"
        for n in (
            "03_threadsync_and_reduction/global_kernel", "03_threadsync_and_reduction/shared_kernel",
            "05_warp_divergence/kernel_interleaving", "05_warp_divergence/kernel_sequential",
            "06_limiter_balancing/kernel", "06_limiter_balancing/kernel_opt",
            "07_warp_synchronous_programming/wp_kernel", "08_cooperative_group/cg_kernel",
            "08_cooperative_group/cg_shift_kernel", "09_loop_unrolling/wp_kernel",
        )
    ],
    "learn/atomics": [f"{CH3}/10_atomic_operation/reduction_{n}kernel.cu" for n in ("blk_atmc_", "", "wrp_atmc_")],
    "learn/precision": [f"{CH3}/11_mixed_precision_operation/mixed_precision{n}.cu" for n in ("", "_half", "_int")],
    "learn/convolution": [f"{CH7}/02_convolution/convolution.cu"],
    "learn/scan": [f"{CH7}/03_scan/scan_v1.cu", f"{CH7}/03_scan/scan_v2.cu"],
    "learn/pack": [f"{CH7}/04_pack_n_split/pack_n_split.cu"],
    "learn/nbody": [f"{CH7}/05_n-body/n_body.cu"],
    "learn/radixsort": [f"{CH7}/07_radixsort/radix_warp_sort.cu"],
    "learn/histogram": [f"{CH7}/08_histogram/image_histogram.cu"],
    "book/arithmetic": ["src/05-prerequisites-for-speedup/arithmetic2gpu.cu"],
    "book/matrix": ["src/07-global-memory/matrix.cu"],
    "book/bank": ["src/08-shared-memory/bank.cu"],
    "book/reduce": [
        "src/08-shared-memory/reduce2gpu.cu", "src/09-atomic/reduce.cu", "src/10-warp/reduce.cu",
        "src/10-warp/reduce1parallelism.cu", "src/10-warp/reduce2static.cu",
    ],
    "book/neighbor": ["src/09-atomic/neighbor2gpu.cu"],
    "book/force": [f"{MD}/force-only/main.cu", f"{MD}/whole-code/main.cu"],
    "blog/difference": ["series/cuda-cpp/finite-difference/finite-difference.cu"],
    "blog/transpose": ["series/cuda-cpp/transpose/transpose.cu"],
    "blog/gups": ["posts/gups/gups.cu"],
    "blog/shuffle": ["posts/parallel_reduction_with_shfl/main.cu"],
    "blog/options": ["posts/american-options/longstaff_schwartz_svd_2.cu"],
    "tutorial/elementwise": ["elementwise/elementwise_add.cu"],
    "tutorial/reduce": [
        f"reduce/reduce_{n}.cu"
        for n in (
            "v0_baseline", "v1_no_divergence_branch", "v2_no_bank_conflict", "v3_add_during_load",
            "v4_unroll_last_warp", "v5_completely_unroll", "v6_multi_add", "v7_shuffle",
        )
    ],
    "tutorial/sgemm": ["sgemm/sgemm_v1.cu", "sgemm/sgemm_v3.cu"],
    "tutorial/sgemv": ["sgemv/Sgemv_v0.cu", "sgemv/Sgemv_v1.cu", "sgemv/Sgemv_v2.cu"],
}  # fmt: skip
# Pairs of Jokeren/GPA-Benchmark (the authors' optimised versions beside them) that need no data files.
RODINIA = "backprop gaussian lavaMD lud myocyte nw particlefilter pathfinder srad_v1 streamcluster".split()


def order(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def others() -> list[str]:
    return sorted([*(f"llmc/{n}" for n in LLMC), *(f"samples/{n}" for n in SAMPLES)], key=order)


def books() -> dict[str, str]:
    """Programs of labels/judged8.toml -> the file or folder that each is."""
    picked = {name: files[int(order(name), 16) % len(files)] for name, files in BOOKS.items()}
    return {**{f"polybench/{n}": f"CUDA/{n}" for n in POLYBENCH}, **picked}


def half(name: str) -> str:
    """`learn` or `judged`."""
    return "judged" if int(order(name), 16) & 1 else "learn"


def is_candidate(folder: Path) -> bool:
    files = [f for f in folder.rglob("*") if f.is_file()]
    code = [f for f in files if f.suffix in SOURCES]
    makefile = folder / "Makefile"
    if not makefile.is_file() or sum(f.stat().st_size for f in files) > MAX_FOLDER:
        return False
    if sum(f.stat().st_size for f in code) > MAX_CODE:
        return False
    recipe = makefile.read_text(errors="replace")
    text = "".join(f.read_text(errors="replace") for f in code)
    runs = re.findall(r"^\t\s*.*\./\$?\(?[\w{}()$]+.*$", recipe, re.MULTILINE)
    links = set(re.findall(r"(?<!\S)-l(\w+)", recipe)) - {"m", "pthread", "cudart"}
    return (
        bool(runs) and not links
        and not re.search(r"mpicc|mpicxx|MPI|nccl|nvshmem", recipe)
        and not FILES.search("".join(runs))
        and "__global__" in text and bool(CHECKS.search(text))
        and "cudaMallocManaged" not in text and not LIBRARIES.search(text)
    )  # fmt: skip


def is_later(folder: Path) -> bool:
    """Whether the wider rule takes a program that `is_candidate` refuses."""
    makefile = folder / "Makefile"
    if not makefile.is_file():
        return False
    code = [f for f in folder.rglob("*") if f.is_file() and f.suffix in SOURCES]
    recipe, text = makefile.read_text(errors="replace"), "".join(f.read_text(errors="replace") for f in code)
    runs = "".join(re.findall(r"^\t\s*.*\./\$?\(?[\w{}()$]+.*$", recipe, re.MULTILINE))
    links = set(re.findall(r"(?<!\S)-l(\w+)", recipe)) - {"m", "pthread", "cudart"}
    return (
        bool(runs) and not links and sum(f.stat().st_size for f in code) <= MAX_LATER
        and not re.search(r"mpicc|mpicxx|MPI|nccl|nvshmem", recipe)
        and all((folder / name).exists() for name in NAMED_FILE.findall(runs))
        and "__global__" in text and "cudaMallocManaged" not in text and not HEAVY.search(text)
    )  # fmt: skip


def page(names: list[str], later: list[str]) -> str:
    lines = [
        "# Written by tools/field/split.py before any of these programs was read; its docstring gives the rule.",
        "# The order within a half is that of the hashes: captures take the first of each.", "",
    ]  # fmt: skip
    for side in ("learn", "judged"):
        mine = [n for n in names if half(n) == side]
        lines += [f"{side} = [", *(f'    "{n}",' for n in mine), "]"]
    lines += ["# Programs that the first rule left out, listed before any of them was read.", "later = ["]
    lines += [*(f'    "{n}",' for n in later), "]"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hecbench", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("split.toml"))
    args = parser.parse_args()
    folders = sorted((args.hecbench / "src").glob("*-cuda"))
    if not folders:
        sys.exit(f"{args.hecbench}: no src/*-cuda folders; name a checkout of zjin-lcf/HeCBench")
    names = [f.name.removesuffix("-cuda") for f in folders if is_candidate(f)]
    names = [n for n in names if n not in UNFIT and n not in NEEDS_FILES]
    unfit = {*names, *UNFIT, *LATER_UNFIT, *NEEDS_FILES}
    later = [f.name.removesuffix("-cuda") for f in folders if f.name.removesuffix("-cuda") not in unfit and is_later(f)]
    names += [f"rodinia/{n}" for n in RODINIA]
    args.out.write_text(page(sorted(names, key=order), sorted(later, key=order)), encoding="utf-8")
    print(f"Wrote {args.out}: {len(names) + len(later)} programs")


if __name__ == "__main__":
    main()
