// BERT-large attention output in FP8 (16 heads of 64), batch 64, padded length 384, lengths 64 to 384:
// [batch, head, seq, 64] -> [valid tokens, head, 64].
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>
#include "src/fastertransformer/utils/cuda_fp8_utils.h"

using namespace fastertransformer;
#include "kernel.inc"

#define CHECK(x)                                                                      \
    do {                                                                              \
        cudaError_t e_ = (x);                                                         \
        if (e_ != cudaSuccess) {                                                      \
            printf("FAIL %s line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_));    \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

int main()
{
    const int batch = 64, seq = 384, heads = 16, size = 64, hidden = heads * size;
    std::mt19937 gen(11);
    std::uniform_int_distribution<int> length_of(64, seq);
    std::vector<int> padding, row_batch, row_seq;
    for (int b = 0; b < batch; b++) {
        const int length = length_of(gen);
        const int before = b * seq - (int)padding.size();
        for (int i = 0; i < length; i++) {
            padding.push_back(before);
            row_batch.push_back(b);
            row_seq.push_back(i);
        }
    }
    const int tokens = (int)padding.size();
    const size_t src_count = (size_t)batch * hidden * seq, dst_count = (size_t)tokens * hidden;
    std::vector<unsigned char> src(src_count), got(dst_count);
    for (size_t i = 0; i < src_count; i++) {
        unsigned h = (unsigned)i * 2654435761u;
        h ^= h >> 13;
        src[i] = (unsigned char)(h & 0xbf);  // finite, magnitude below 2
    }

    unsigned char *d_src, *d_dst;
    int* d_padding;
    CHECK(cudaMalloc(&d_src, src_count));
    CHECK(cudaMalloc(&d_dst, dst_count));
    CHECK(cudaMalloc(&d_padding, tokens * sizeof(int)));
    CHECK(cudaMemcpy(d_src, src.data(), src_count, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_padding, padding.data(), tokens * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_dst, 0, dst_count));

    const int block = hidden < 512 ? hidden : 512;
    const int grid  = tokens;
    for (int r = 0; r < 8; r++)
        FP8TransposeAttentionOutRemovePadding<<<grid, block>>>((__nv_fp8_e4m3*)d_dst,
                                                               (const __nv_fp8_e4m3*)d_src,
                                                               (const float*)nullptr,
                                                               batch,
                                                               seq,
                                                               heads,
                                                               size / 4,
                                                               (const int*)d_padding);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaMemcpy(got.data(), d_dst, dst_count, cudaMemcpyDeviceToHost));
    size_t bad = 0;
    for (int t = 0; t < tokens; t++)
        for (int h = 0; h < heads; h++)
            bad += memcmp(&got[(size_t)t * hidden + h * size],
                          &src[(((size_t)row_batch[t] * heads + h) * seq + row_seq[t]) * size],
                          size)
                   != 0;
    double sum = 0;
    for (size_t i = 0; i < dst_count; i++)
        sum += got[i] & 0x7f;
    if (bad)
        printf("FAIL %zu\n", bad);
    else
        printf("PASS\n");
    printf("tokens %d checksum %.4g\n", tokens, sum);
    return bad != 0;
}
