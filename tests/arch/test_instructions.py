"""instructions.toml says what ptxas accepts: each instruction at the edges of the targets that have it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.arch import table

TARGETS = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
SPECIFIC_FROM = 90  # targets with an architecture-specific variant, sm_90a

PTX = {
    "dp4a": "dp4a.s32.s32 r1,r2,r3,r4;",
    "atomics_fp64": "red.global.add.f64 [rd0],d0;",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r1,r2,r3,r4},[r0];",
    "mma_fp16_k8": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f0,f1,f2,f3},{r1,r2},{r5},{f0,f1,f2,f3};",
    "tanh": "tanh.approx.f32 f0,f1; ex2.approx.f16x2 r1,r2;",
    "mma_fp16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                "{f0,f1,f2,f3},{r1,r2,r3,r4},{r5,r6},{f0,f1,f2,f3};",
    "mma_tf32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                "{f0,f1,f2,f3},{r1,r2,r3,r4},{r5,r6},{f0,f1,f2,f3};",
    "mma_int8": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {r0,r1,r2,r3},{r1,r2,r3,r4},{r5,r6},{r0,r1,r2,r3};",
    "mma_fp64": "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {d0,d1},{d2},{d3},{d0,d1};",
    "mma_sparse": "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
                  "{f0,f1,f2,f3},{r1,r2,r3,r4},{r5,r6,r7,r8},{f0,f1,f2,f3},r9,0x0;",
    "cp_async": "cp.async.cg.shared.global [r0],[rd0],16;",
    "mbarrier": "mbarrier.init.shared.b64 [r0],1;",
    "redux": "redux.sync.add.s32 r1,r2,r3;",
    "cache_policy": "createpolicy.fractional.L2::evict_first.b64 rd1,1.0;",
    "mma_fp8": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {f0,f1,f2,f3},{r1,r2,r3,r4},{r5,r6},{f0,f1,f2,f3};",
    "cluster": "barrier.cluster.arrive; mapa.shared::cluster.u32 r1,r0,r2;",
    "tma": "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [r0],[rd0,{r3,r4}],[r2]; "
           "mbarrier.try_wait.shared.b64 q,[r0],rd1;",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x4.shared.b16 [r0],{r1,r2,r3,r4};",
    "elect": "elect.sync r1|q,r2;",
    "dependent_launch": "griddepcontrol.wait;",
    "vector_atomics": "red.global.add.v4.f32 [rd0],{f0,f1,f2,f3};",
    "wgmma": "wgmma.fence.sync.aligned;",
    "setmaxnreg": "setmaxnreg.inc.sync.aligned.u32 128;",
    "tcgen05": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r0],32;",
    "redux_fp32": "redux.sync.max.f32 f1,f2,r3;",
    "fma_pairs": "fma.rn.f32x2 rd1,rd2,rd3,rd1;",
    "wide_access": "ld.global.v8.b32 {r1,r2,r3,r4,r5,r6,r7,r8},[rd0];",
    "cluster_launch_control":
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [r0],[r1];",
    "cvt_fp4": "{ .reg .b8 b; cvt.rn.satfinite.e2m1x2.f32 b,f0,f1; }",
    "mma_fp4": "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
               "{f0,f1,f2,f3},{r1,r2,r3,r4},{r5,r6},{f0,f1,f2,f3},r7,{h0,h1},r8,{h0,h1};",
}  # fmt: skip
FRAME = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p) {{
.reg .b32 r<40>; .reg .b64 rd<20>; .reg .f32 f<40>; .reg .f64 d<10>; .reg .pred q; .reg .b16 h<4>;
.shared .align 128 .b8 s[1024];
ld.param.u64 rd0,[p]; mov.u32 r0,s;
{body}
ret;
}}
"""


def ptxas() -> str | None:
    """One that knows PTX 9.0, of CUDA 13."""
    return shutil.which("ptxas") or next((str(p) for p in sorted(Path("/usr/local").glob("cuda-13*/bin/ptxas"))), None)


def targets(name: str) -> set[int]:
    entry = table("instructions")[name]
    return {t for t in TARGETS if (t in entry["only"] if "only" in entry else t >= entry["since"])}


def test_all_but_the_oldest_are_tried() -> None:
    assert set(table("instructions")) - set(PTX) == {"mma_m8n8k4"}


@pytest.mark.skipif(ptxas() is None, reason="needs ptxas of CUDA 13")
@pytest.mark.parametrize("name", PTX)
def test_as_ptxas_says(name: str, tmp_path: Path) -> None:
    has = targets(name)
    edges = {TARGETS[i] for i in range(len(TARGETS)) for j in (i - 1, i + 1)
             if 0 <= j < len(TARGETS) and (TARGETS[i] in has) != (TARGETS[j] in has)}  # fmt: skip
    specific = table("instructions")[name].get("specific", False)
    for target in edges or {TARGETS[0]}:
        plain, own = f"sm_{target}", f"sm_{target}a" if target >= SPECIFIC_FROM else f"sm_{target}"
        assert accepts(name, own, tmp_path) == (target in has), (name, own)
        if specific and target in has:
            assert not accepts(name, plain, tmp_path), (name, plain)


def accepts(name: str, target: str, folder: Path) -> bool:
    source = folder / "one.ptx"
    source.write_text(FRAME.format(target=target, body=PTX[name]), encoding="utf-8")
    done = subprocess.run([str(ptxas()), "-arch", target, str(source), "-o", str(folder / "one.cubin")],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        assert "requires .target" in done.stderr or "not supported on .target" in done.stderr, done.stderr
    return done.returncode == 0
