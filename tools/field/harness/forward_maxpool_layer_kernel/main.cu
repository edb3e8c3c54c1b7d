// First max pooling of a small detector: batch 16, 16 maps of 416 x 416, window 2, stride 2, padding 1.
#include "util.h"
#include "kernel.inc"

// the library's rule for its grids: a line of blocks, folded into two dimensions above 65535
static dim3 grid_for(size_t n, int block) {
    size_t k = (n - 1) / block + 1, x = k, y = 1;
    if (x > 65535) { x = (size_t)std::ceil(std::sqrt((double)k)); y = (n - 1) / (x * block) + 1; }
    return dim3((unsigned)x, (unsigned)y, 1);
}

int main() {
    const int block = 512, B = 16, C = 16, H = 416, W = 416, stride = 2, size = 2, pad = 1;
    const int h = (H + pad - size) / stride + 1, w = (W + pad - size) / stride + 1, n = B * C * h * w;
    const size_t nin = (size_t)B * C * H * W;
    Rng r; std::vector<float> x(nin);
    for (auto &v : x) { float t = r.uni() + r.uni() - 1.0f; v = t > 0 ? t : 0.1f * t; }
    float *dx = up(x), *dy; int *di;
    CK(cudaMalloc(&dy, n * sizeof(float))); CK(cudaMalloc(&di, n * sizeof(int)));
    for (int it = 0; it < 6; it++) {
        forward_maxpool_layer_kernel<<<grid_for(n, block), block>>>(n, H, W, C, stride, size, pad, dx, dy, di);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto o = down(dy, n); auto ix = down(di, n);
    int bad = 0;
    for (int s = 0; s < 20000; s++) {
        int e = r.next() % n, j = e % w, i = e / w % h, p = e / (w * h); float best = -INFINITY; int bi = -1;
        for (int l = 0; l < size; l++) for (int m = 0; m < size; m++) {
            int y = i * stride + l - pad / 2, z = j * stride + m - pad / 2;
            if (y < 0 || y >= H || z < 0 || z >= W) continue;
            int q = z + W * (y + H * p); if (x[q] > best) { best = x[q]; bi = q; }
        }
        if (best != o[e] || bi != ix[e]) bad++;
    }
    double sum = 0, isum = 0; for (int e = 0; e < n; e++) { sum += fabs(o[e]); isum += ix[e]; }
    if (bad) printf("FAIL %d of 20000 samples\n", bad); else printf("PASS\n");
    printf("checksum %.4g %.6g\n", sum, isum);
    return bad != 0;
}
