// One decoding step of a beam search: 16 requests, beam width 5, vocabulary 51200, scores in float.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>
#include <cuda_fp16.h>
#include "src/fastertransformer/kernels/reduce_kernel_utils.cuh"
namespace fastertransformer {
#include "kernel.inc"
}
#include "config.h"

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
    const int          batch = 16, beam = 5, vocab = 51200, rows = batch * beam;
    const size_t       n     = size_t(rows) * vocab;
    const int          cand  = rows * beam * kBlocksPerBeam;
    std::mt19937       rng(5);
    std::vector<float> lp(n);
    std::normal_distribution<float> nd(0.f, 1.f);
    for (int r = 0; r < rows; r++) {
        const float cum = -1.5f * float(1 + rng() % 20);  // score of the beam so far
        for (int v = 0; v < vocab; v++)
            lp[size_t(r) * vocab + v] = cum - 13.f + 2.2f * nd(rng);
    }
    float *d_lp, *d_tmp, *d_val;
    int *  d_id, *d_len;
    bool*  d_fin;
    CHECK(cudaMalloc(&d_lp, n * 4));
    CHECK(cudaMalloc(&d_tmp, n * 4));
    CHECK(cudaMalloc(&d_val, cand * 4));
    CHECK(cudaMalloc(&d_id, cand * 4));
    CHECK(cudaMalloc(&d_len, rows * 4));
    CHECK(cudaMalloc(&d_fin, rows));
    CHECK(cudaMemset(d_len, 0, rows * 4));
    CHECK(cudaMemset(d_fin, 0, rows));
    CHECK(cudaMemcpy(d_lp, lp.data(), n * 4, cudaMemcpyHostToDevice));
    for (int r = 0; r < 8; r++) {  // 2 to warm up, 6 measured
        CHECK(cudaMemset(d_id, 0xff, cand * 4));
        fastertransformer::topk_stage_1_opt2_general<float, kThreads, kBlocksPerBeam>
            <<<rows * kBlocksPerBeam, kThreads>>>(d_lp, d_tmp, d_id, d_val, d_fin, d_len, beam, vocab, 0.f);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
    std::vector<int>   id(cand);
    std::vector<float> val(cand);
    CHECK(cudaMemcpy(id.data(), d_id, cand * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(val.data(), d_val, cand * 4, cudaMemcpyDeviceToHost));

    int       bad    = 0;
    double    sum    = 0;
    const int per    = beam * kBlocksPerBeam;
    std::vector<float> ref;
    for (int r = 0; r < rows; r++) {  // the best of a row's candidates, as the second stage takes them
        std::vector<int> order(per);
        for (int i = 0; i < per; i++) {
            order[i] = r * per + i;
            bad += id[r * per + i] < r * vocab || id[r * per + i] >= (r + 1) * vocab || lp[id[r * per + i]] != val[r * per + i];
        }
        std::sort(order.begin(), order.end(), [&](int x, int y) { return val[x] > val[y]; });
        ref.assign(lp.begin() + size_t(r) * vocab, lp.begin() + size_t(r + 1) * vocab);
        std::partial_sort(ref.begin(), ref.begin() + beam, ref.end(), [](float x, float y) { return x > y; });
        for (int i = 0; i < beam; i++) {
            bad += val[order[i]] != ref[i];
            sum += fabs((double)val[order[i]]);
        }
    }
    if (bad)
        printf("FAIL %d wrong\n", bad);
    else
        printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
