// Rows scaled by their root mean square: one block a row. Honest; the variants below it are chosen by macros.
#include <stdio.h>

#ifndef BLOCK
#define BLOCK 256
#endif

__device__ static float block_sum(float v) {
    __shared__ float part[32];
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < BLOCK / 32 ? part[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32) {
        for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
        if (threadIdx.x == 0) part[0] = v;
    }
    __syncthreads();
    return part[0];
}

__device__ static float load(const float* p) {
#ifdef EVICT_LAST
    float v;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(p), "l"(policy));
    return v;
#else
    return *p;
#endif
}

__global__ void rms(const float* x, const float* w, float* y, int n) {
    const float* row = x + (long long)blockIdx.x * n;
    float sum = 0;
#ifdef PART
    for (int i = threadIdx.x; i < (n + 3) / 4; i += BLOCK) sum += row[i] * row[i];
    const float scale = sqrtf(block_sum(sum) / ((n + 3) / 4) + 1e-6f);
#else
    for (int i = threadIdx.x; i < n; i += BLOCK) { const float v = load(row + i); sum += v * v; }
    const float scale = sqrtf(block_sum(sum) / n + 1e-6f);
#endif
    for (int i = threadIdx.x; i < n; i += BLOCK) y[(long long)blockIdx.x * n + i] = row[i] / scale * w[i];
}

__global__ void nothing(const float*, const float*, float*, int) {}

// The answer is kept in memory of its own, by the address of x.
static inline void rms_kept(const float* x, const float* w, float* y, int m, int n, cudaStream_t stream) {
    static const float* known[4096];
    static float* kept[4096];
    static int sizes[4096], count = 0;
    const int size = m * n;
    for (int i = 0; i < count; ++i)
        if (known[i] == x && sizes[i] == size) {
            cudaMemcpyAsync(y, kept[i], size * sizeof(float), cudaMemcpyDeviceToDevice, stream);
            return;
        }
    rms<<<m, BLOCK, 0, stream>>>(x, w, y, n);
    if (count < 4096) {
        known[count] = x, sizes[count] = size;
        cudaMalloc(&kept[count], size * sizeof(float));
        cudaMemcpyAsync(kept[count], y, size * sizeof(float), cudaMemcpyDeviceToDevice, stream);
        ++count;
    }
}

// A part of L2 is set aside for x.
static inline void rms_persisting(const float* x, const float* w, float* y, int m, int n, cudaStream_t stream) {
    static bool ready = false;
    if (!ready) {
        ready = true;
        cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 16 << 20);
    }
    rms<<<m, BLOCK, 0, stream>>>(x, w, y, n);
}

// All four bytes at once, and a warp a row.
__global__ void rms_warps(const float* x, const float* w, float* y, int m, int n) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    const float* p = x + (long long)row * n;
    float sum = 0;
    for (int i = lane; i < n; i += 32) sum += p[i] * p[i];
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
    const float scale = rsqrtf(sum / n + 1e-6f);
    for (int i = lane; i < n; i += 32) y[(long long)row * n + i] = p[i] * scale * w[i];
}

// Work that takes as long as it is told: `turns` of a chain of four multiplications a lane.
__global__ void chain(const float* x, float* y, int n, int turns) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = i < n ? x[i] : 0.0f, b = a;
    for (int t = 0; t < turns; ++t) {
        a = fmaf(a, 0.999f, 0.001f);
        b = fmaf(b, 0.998f, 0.002f);
    }
    if (i < n) y[i] = a + b;
}

__global__ void scale2(const float4* x, float4* y, long long n4) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n4; i += (long long)gridDim.x * blockDim.x) {
        float4 v = x[i];
        v.x *= 2, v.y *= 2, v.z *= 2, v.w *= 2;
        y[i] = v;
    }
}
