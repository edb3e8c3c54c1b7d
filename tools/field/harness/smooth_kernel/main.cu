// Smoothing term of a convolutional layer's backward pass: batch 8, 64 maps of 104 x 104, window 5.
#include "util.h"
#include "kernel.inc"

// the library's rule for its grids: a line of blocks, folded into two dimensions above 65535
static dim3 grid_for(size_t n, int block) {
    size_t k = (n - 1) / block + 1, x = k, y = 1;
    if (x > 65535) { x = (size_t)std::ceil(std::sqrt((double)k)); y = (n - 1) / (x * block) + 1; }
    return dim3((unsigned)x, (unsigned)y, 1);
}

int main() {
    const int block = 512, B = 8, C = 64, H = 104, W = 104, size = 5; const float rate = 0.1f;
    const int n = B * C * H * W;
    Rng r; std::vector<float> x(n), d(n);
    for (auto &v : x) { float t = r.normal(); v = t > 0 ? t : 0.1f * t; }
    for (auto &v : d) v = 0.01f * r.normal();
    float *dx = up(x), *d0 = up(d), *dd; CK(cudaMalloc(&dd, n * sizeof(float)));
    for (int it = 0; it < 6; it++) {
        CK(cudaMemcpy(dd, d0, n * sizeof(float), cudaMemcpyDeviceToDevice));
        smooth_kernel<<<grid_for(n, block), block>>>(dx, n, W, H, C, size, rate, dd);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto o = down(dd, n);
    int bad = 0;
    for (int s = 0; s < 4000; s++) {
        int e = r.next() % n, j = e % W, i = e / W % H, base = e - j - i * W; double t = d[e];
        for (int l = -2; l <= 2; l++) for (int m = -2; m <= 2; m++)
            if (i + l >= 0 && i + l < H && j + m >= 0 && j + m < W) t += rate * ((double)x[base + (i + l) * W + j + m] - x[e]);
        if (fabs(t - o[e]) > 1e-4 * (1 + fabs(t))) bad++;
    }
    double sum = 0; for (float v : o) sum += fabs(v);
    if (bad) printf("FAIL %d of 4000 samples\n", bad); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
