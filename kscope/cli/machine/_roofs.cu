// Kernels of `kscope arch --measure`, compiled by NVRTC: each does `repeat` times the same amount of one thing.
// The first two words of `out` are the cycles and the nanoseconds that block 0 took, where a kernel says so.

typedef unsigned long long u64;

struct alignas(16) Words { unsigned x, y, z, w; };

__device__ __forceinline__ u64 now_ns() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// A value that never arises, so that the compiler has to keep what leads to it.
__device__ __forceinline__ void keep(Words v, u64 *out) {
  if ((v.x ^ v.y ^ v.z ^ v.w) == 0x9e3779b9u) out[16 + threadIdx.x] = v.x;
}

__device__ __forceinline__ Words load_streaming(const Words *p) {
  Words v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}

__device__ __forceinline__ Words load_past_l1(const Words *p) {
  Words v;
  asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}

__device__ __forceinline__ void mix(Words &s, Words v) { s.x ^= v.x; s.y ^= v.y; s.z ^= v.z; s.w ^= v.w; }

extern "C" __global__ void __launch_bounds__(512) read_all(const Words *p, u64 n, u64 *out, int repeat) {
  Words s = {0, 0, 0, 0};
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (int r = 0; r < repeat; r++) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
      Words a = load_streaming(p + i), b = load_streaming(p + i + step);
      Words c = load_streaming(p + i + 2 * step), d = load_streaming(p + i + 3 * step);
      mix(s, a); mix(s, b); mix(s, c); mix(s, d);
    }
    for (; i < n; i += step) mix(s, load_streaming(p + i));
  }
  keep(s, out);
}

extern "C" __global__ void __launch_bounds__(512) copy_all(const Words *from, Words *to, u64 n, int repeat) {
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (int r = 0; r < repeat; r++) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
      Words a = load_streaming(from + i), b = load_streaming(from + i + step);
      Words c = load_streaming(from + i + 2 * step), d = load_streaming(from + i + 3 * step);
      to[i] = a; to[i + step] = b; to[i + 2 * step] = c; to[i + 3 * step] = d;
    }
    for (; i < n; i += step) to[i] = load_streaming(from + i);
  }
}

// All blocks together read n words once a repetition; a block's part moves on with each, so that no SM keeps its own.
extern "C" __global__ void __launch_bounds__(1024) read_l2(const Words *p, u64 n, u64 *out, int repeat) {
  Words s = {0, 0, 0, 0};
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (int r = 0; r < repeat; r++) {
    u64 i = (u64)((blockIdx.x + r) % gridDim.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
      Words a = load_past_l1(p + i), b = load_past_l1(p + i + step);
      Words c = load_past_l1(p + i + 2 * step), d = load_past_l1(p + i + 3 * step);
      mix(s, a); mix(s, b); mix(s, c); mix(s, d);
    }
    for (; i < n; i += step) mix(s, load_past_l1(p + i));
  }
  keep(s, out);
}

// 64 loads of 16 bytes a thread and repetition, without bank conflicts.
extern "C" __global__ void __launch_bounds__(256) read_shared(u64 *out, int repeat) {
  __shared__ Words tile[1024];
  for (int i = threadIdx.x; i < 1024; i += 256) tile[i] = {threadIdx.x, 1u, 2u, 3u};
  __syncthreads();
  unsigned at = (unsigned)__cvta_generic_to_shared(tile) + 16 * threadIdx.x;
  Words s = {0, 0, 0, 0};
#pragma unroll 1
  for (int r = 0; r < repeat; r++) {
#pragma unroll 16
    for (int k = 0; k < 64; k++) {
      Words v;
      asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at + 4096u * (k % 4)));
      s.x ^= v.x;  // one operation for four words: the loads stay the limit (volatile, or ptxas loads one word once)
    }
  }
  keep(s, out);
}

template <class T> __device__ __forceinline__ void multiply_adds(u64 *out, int repeat, T one, T small) {
  T a[8];
#pragma unroll
  for (int c = 0; c < 8; c++) a[c] = one + small * (T)(threadIdx.x + c);
  const T x = one - small, y = small;
  const long long cycles = clock64();
  const u64 ns = now_ns();
#pragma unroll 1
  for (int r = 0; r < repeat; r++) {
#pragma unroll
    for (int k = 0; k < 64; k++)
#pragma unroll
      for (int c = 0; c < 8; c++) a[c] = a[c] * x + y;
  }
  T sum = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
  if (sum == (T)-1) out[16] = 1;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    out[0] = (u64)(clock64() - cycles);
    out[1] = now_ns() - ns;
  }
}

extern "C" __global__ void __launch_bounds__(512) fma_fp32(u64 *out, int repeat) {
  multiply_adds<float>(out, repeat, 1.0f, 1e-6f);
}

extern "C" __global__ void __launch_bounds__(512) fma_fp64(u64 *out, int repeat) {
  multiply_adds<double>(out, repeat, 1.0, 1e-6);
}

#if __CUDA_ARCH__ >= 800
// 16 steps of 8 products m16n8k16 a warp and repetition.
extern "C" __global__ void __launch_bounds__(512) mma_bf16(u64 *out, int repeat) {
  unsigned a[4], b[2];
  for (int i = 0; i < 4; i++) a[i] = 0x3f803f80u + threadIdx.x * 7 + i;
  for (int i = 0; i < 2; i++) b[i] = 0x3c003c00u + threadIdx.x * 5 + i;
  float c[8][4] = {};
  const long long cycles = clock64();
  const u64 ns = now_ns();
#pragma unroll 1
  for (int r = 0; r < repeat; r++) {
#pragma unroll
    for (int k = 0; k < 16; k++)
#pragma unroll
      for (int t = 0; t < 8; t++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(c[t][0]), "+f"(c[t][1]), "+f"(c[t][2]), "+f"(c[t][3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  float sum = 0;
  for (int t = 0; t < 8; t++) sum += c[t][0] + c[t][1] + c[t][2] + c[t][3];
  if (sum == -1.0f) out[16] = 1;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    out[0] = (u64)(clock64() - cycles);
    out[1] = now_ns() - ns;
  }
}
#endif

// Each line of 128 bytes names the next one; lines is a power of two, so every line is visited before one is again.
extern "C" __global__ void make_chain(u64 *p, u64 lines) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += (u64)gridDim.x * blockDim.x)
    p[16 * i] = (i * 1664525ull + 1013904223ull) & (lines - 1);
}

extern "C" __global__ void chase(const u64 *p, u64 at, int hops, int around, int cached, u64 *out) {
  if (around)
    for (int i = 0; i < hops; i++) {
      const u64 *next = p + 16 * at;
      if (cached) asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(at) : "l"(next));
      else asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(at) : "l"(next));
    }
  const long long begin = clock64();
  if (cached)
    for (int i = 0; i < hops; i++) asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(at) : "l"(p + 16 * at));
  else
    for (int i = 0; i < hops; i++) asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(at) : "l"(p + 16 * at));
  const long long end = clock64();
  out[0] = (u64)(end - begin) + (at == ~0ull);
}
