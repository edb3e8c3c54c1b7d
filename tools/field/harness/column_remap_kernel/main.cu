// Activations of a prompt of 2048 tokens (7B model, width 4096) put into the order of an act-order weight's groups.
#include "h.h"
#include <numeric>
#include "kernel.inc"
#include "launch.h"

int main() {
    const int H = 2048, W = 4096, G = 128;
    Rng r(2);
    // g_idx of act-order: the rank of a column in a random order, divided by the group size; the map sorts columns by group, stably
    std::vector<int> rank(W);
    std::iota(rank.begin(), rank.end(), 0);
    for (int i = W - 1; i > 0; i--) std::swap(rank[i], rank[r.next() % (i + 1)]);
    std::vector<uint32_t> map;
    for (int g = 0; g < W / G; g++)
        for (int c = 0; c < W; c++)
            if (rank[c] / G == g) map.push_back(c);
    std::vector<half> x((size_t)H * W);
    for (auto& v : x) v = __float2half(r.gauss());
    half *dx = to_device(x), *dn;
    uint32_t* dm = to_device(map);
    CK(cudaMalloc(&dn, x.size() * sizeof(half)));
    CK(cudaMemset(dn, 0, x.size() * sizeof(half)));
    for (int i = 0; i < 6; i++) {
        launch(dx, dn, H, W, dm);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    std::vector<half> o = to_host(dn, x.size());
    size_t bad = 0;
    double sum = 0;
    for (int i = 0; i < H; i++)
        for (int c = 0; c < W; c++) {
            float got = __half2float(o[(size_t)i * W + c]);
            sum += fabs(got) * (1 + c % 7);
            if (got != __half2float(x[(size_t)i * W + map[c]])) bad++;
        }
    if (bad) printf("FAIL %zu\n", bad);
    else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
