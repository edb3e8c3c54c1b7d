// Runs init_done_kernel of pytorch_cluster as graclus clustering does: one thread sets the flag, then colorize_kernel clears it where nodes are
// still unmatched (169343 nodes, of which fewer are unmatched in every round).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "kernel.inc"
#ifndef INIT_THREADS
#define INIT_THREADS 1
#endif

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

int main() {
    const int64_t N = 169343;
    std::mt19937 rng(9);
    std::uniform_real_distribution<float> uni(0.f, 1.f);
    std::vector<int64_t> out(N);
    std::vector<float> blue(N);
    int64_t* d_out;
    float* d_blue;
    CK(cudaMalloc(&d_out, N * 8));
    CK(cudaMalloc(&d_blue, N * 4));
    int bad = 0;
    double sum = 0;
    for (int round = 0; round < 6; round++) {
        const float unmatched = round == 5 ? 0.f : 1.f / (1 << round);
        for (int64_t i = 0; i < N; i++) out[i] = uni(rng) < unmatched ? -1 : i, blue[i] = uni(rng) < (float)BLUE_P;
        CK(cudaMemcpy(d_out, out.data(), N * 8, cudaMemcpyHostToDevice));
        CK(cudaMemcpy(d_blue, blue.data(), N * 4, cudaMemcpyHostToDevice));
        init_done_kernel<<<1, INIT_THREADS>>>();
        CK(cudaGetLastError());
        colorize_kernel<<<BLOCKS(N), THREADS>>>(d_out, d_blue, N);
        CK(cudaGetLastError());
        bool value = false;  // the first byte, whatever the width of the flag
        CK(cudaMemcpyFromSymbol(&value, done_d, sizeof(value), 0, cudaMemcpyDeviceToHost));
        std::vector<int64_t> got(N);
        CK(cudaMemcpy(got.data(), d_out, N * 8, cudaMemcpyDeviceToHost));
        for (int64_t i = 0; i < N; i++) {
            bad += got[i] != (out[i] < 0 ? (int64_t)blue[i] - 2 : out[i]);
            sum += got[i];
        }
        bad += value != (round == 5);
    }
    printf("checksum %.10g\n", sum);
    if (bad) printf("FAIL %d\n", bad);
    else printf("PASS\n");
    return bad ? 1 : 0;
}
