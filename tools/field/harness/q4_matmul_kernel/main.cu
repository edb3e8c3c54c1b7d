// One token (decode) through a 7B model's up projection, 4096 x 11008 in 4 bits, groups of 128.
// The weight has six copies, used in turn, so that each launch finds it in memory as one layer of a model does.
#include "h.h"
#include "matrix.cuh"
#include "cuda_compat.cuh"
#define USE_SMEM
#include "kernel.inc"
#include "launch.h"

int main() {
    const int M = 1, K = 4096, N = 11008, G = 128, COPIES = 6;
    Rng r(3);
    std::vector<uint32_t> w((size_t)K / 8 * N), z((size_t)K / G * N / 8);
    std::vector<half> s((size_t)K / G * N), x((size_t)M * K);
    for (auto& v : w) v = r.next();
    for (auto& v : z) {
        v = 0;
        for (int i = 0; i < 8; i++) v |= (6 + r.next() % 3) << (4 * i);
    }
    for (auto& v : s) v = __float2half(0.002f + 0.006f * r.uni());
    for (auto& v : x) v = __float2half(0.5f * r.gauss());
    uint32_t* dw[COPIES];
    dw[0] = to_device(w);
    for (int i = 1; i < COPIES; i++) dw[i] = clone_device(dw[0], w.size());
    uint32_t* dz = to_device(z);
    half *ds = to_device(s), *dx = to_device(x), *out;
    CK(cudaMalloc(&out, (size_t)M * N * sizeof(half)));
    CK(cudaDeviceSynchronize());
    for (int i = 0; i < 6; i++) {
        launch(dx, dw[i % COPIES], out, ds, dz, M, K, N, G);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    std::vector<half> o = to_host(out, (size_t)M * N);
    int bad = 0;
    double sum = 0;
    for (int n = 0; n < M * N; n++) sum += fabs(__half2float(o[n]));
    for (int n = 0; n < N; n += 43) {
        double ref = 0;
        for (int k = 0; k < K; k++) {
            int q = (w[(size_t)(k / 8) * N + n] >> (4 * (k % 8))) & 15;
            int zero = ((z[(size_t)(k / G) * (N / 8) + n / 8] >> (4 * (n % 8))) & 15) + 1;
            ref += (double)__half2float(x[k]) * (q - zero) * __half2float(s[(size_t)(k / G) * N + n]);
        }
        if (!(fabs(__half2float(o[n]) - ref) < 0.03 + 0.02 * fabs(ref))) bad++;
    }
    if (bad) printf("FAIL %d\n", bad);
    else printf("PASS\n");
    printf("checksum %.3g\n", sum);
    return bad != 0;
}
