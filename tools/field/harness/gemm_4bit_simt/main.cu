// One token (decode) through an 8B model's gate projection in NF4: M = 1, N = 14336, K = 4096, bf16, blocks of 64.
// The weight has six copies, used in turn, so that each launch finds it in memory as one layer of a model does.
#include "h.h"
#include "kernel.inc"
#include "launch.h"

static const float NF4[16] = {-1.0f, -0.69619280f, -0.52507305f, -0.39491749f, -0.28444138f, -0.18477343f, -0.09105004f, 0.0f,
                              0.07958030f, 0.16093020f, 0.24611230f, 0.33791524f, 0.44070983f, 0.56261700f, 0.72295684f, 1.0f};

int main() {
    const int M = 1, N = 14336, K = 4096, BS = 64, COPIES = 6;
    Rng r(5);
    std::vector<__nv_bfloat16> a((size_t)M * K);
    std::vector<uint8_t> b((size_t)N * K / 2);
    std::vector<float> s((size_t)N * K / BS);
    for (auto& v : a) v = __float2bfloat16(r.gauss());
    for (size_t i = 0; i < b.size(); i += 4) *(uint32_t*)&b[i] = r.next();
    for (auto& v : s) v = 0.03f + 0.03f * r.uni();
    uint8_t* db[COPIES];
    float* ds[COPIES];
    db[0] = to_device(b);
    ds[0] = to_device(s);
    for (int i = 1; i < COPIES; i++) db[i] = clone_device(db[0], b.size()), ds[i] = clone_device(ds[0], s.size());
    __nv_bfloat16 *da = to_device(a), *dc;
    CK(cudaMalloc(&dc, (size_t)M * N * sizeof(__nv_bfloat16)));
    CK(cudaMemset(dc, 0, (size_t)M * N * sizeof(__nv_bfloat16)));
    CK(cudaDeviceSynchronize());
    for (int i = 0; i < 6; i++) {
        launch(da, db[i % COPIES], ds[i % COPIES], dc, M, N, K);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    std::vector<__nv_bfloat16> c = to_host(dc, (size_t)M * N);
    int bad = 0;
    double sum = 0;
    for (auto v : c) sum += fabs(__bfloat162float(v));
    for (int m = 0; m < M; m++)
        for (int n = (m * 13) % 57; n < N; n += 57) {
            double ref = 0;
            for (int k = 0; k < K; k++) {
                int byte = b[(size_t)n * (K / 2) + k / 2];
                int q = k % 2 ? byte & 15 : byte >> 4;  // the high half is the first
                ref += (double)__bfloat162float(a[(size_t)m * K + k]) * NF4[q] * s[((size_t)n * K + k) / BS];
            }
            if (!(fabs(__bfloat162float(c[(size_t)m * N + n]) - ref) < 0.05 + 0.02 * fabs(ref))) bad++;
        }
    if (bad) printf("FAIL %d\n", bad);
    else printf("PASS\n");
    printf("checksum %.3g\n", sum);
    return bad != 0;
}
