// End of a beam-search decoding: 128 requests x 4 beams, lengths of the unfinished ones go down by one.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "kernel.inc"
#include "launch.h"

#define CHECK(x)                                                                              \
    do {                                                                                      \
        cudaError_t e_ = (x);                                                                 \
        if (e_ != cudaSuccess) {                                                              \
            printf("FAIL %s line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_));            \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

int main()
{
    const int         tokens = 128 * 4;
    std::mt19937      rng(7);
    std::vector<int>  len(tokens), got(tokens);
    std::vector<char> fin(tokens);
    for (int i = 0; i < tokens; i++) {
        fin[i] = rng() % 100 < 65;
        len[i] = fin[i] ? 16 + int(rng() % 200) : 256;
    }
    int*  d_len;
    int*  d_src;
    bool* d_fin;
    CHECK(cudaMalloc(&d_len, tokens * sizeof(int)));
    CHECK(cudaMalloc(&d_src, tokens * sizeof(int)));
    CHECK(cudaMalloc(&d_fin, tokens));
    CHECK(cudaMemcpy(d_src, len.data(), tokens * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_fin, fin.data(), tokens, cudaMemcpyHostToDevice));
    for (int r = 0; r < 8; r++) {  // 2 to warm up, 6 measured
        CHECK(cudaMemcpy(d_len, d_src, tokens * sizeof(int), cudaMemcpyDeviceToDevice));
        launch(d_len, d_fin, tokens);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(got.data(), d_len, tokens * sizeof(int), cudaMemcpyDeviceToHost));
    int       bad = 0;
    long long sum = 0;
    for (int i = 0; i < tokens; i++) {
        bad += got[i] != len[i] - (fin[i] ? 0 : 1);
        sum += got[i];
    }
    if (bad)
        printf("FAIL %d wrong\n", bad);
    else
        printf("PASS\n");
    printf("checksum %lld\n", sum);
    return bad != 0;
}
