// Backward pass of the global average pooling of a classifier: batch 32, 1024 maps of 8 x 8.
#include "util.h"
#include "kernel.inc"

// the library's rule for its grids: a line of blocks, folded into two dimensions above 65535
static dim3 grid_for(size_t n, int block) {
    size_t k = (n - 1) / block + 1, x = k, y = 1;
    if (x > 65535) { x = (size_t)std::ceil(std::sqrt((double)k)); y = (n - 1) / (x * block) + 1; }
    return dim3((unsigned)x, (unsigned)y, 1);
}

int main() {
    const int block = 512, B = 32, C = 1024, H = 8, W = 8, n = B * C, total = n * H * W;
    Rng r; std::vector<float> g(n), d(total);
    for (auto &v : g) v = r.normal();
    for (auto &v : d) v = 0.01f * r.normal();
    float *dg = up(g), *d0 = up(d), *dd; CK(cudaMalloc(&dd, total * sizeof(float)));
    for (int it = 0; it < 6; it++) {
        CK(cudaMemcpy(dd, d0, total * sizeof(float), cudaMemcpyDeviceToDevice));
        backward_avgpool_layer_kernel<<<grid_for(n, block), block>>>(n, W, H, C, dd, dg);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto o = down(dd, total);
    int bad = 0; double sum = 0;
    for (int e = 0; e < total; e++) {
        double t = d[e] + (double)g[e / (H * W)] / (H * W);
        if (fabs(t - o[e]) > 1e-5) bad++;
        sum += fabs(o[e]);
    }
    if (bad) printf("FAIL %d of %d\n", bad, total); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
