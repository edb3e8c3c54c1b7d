// Dropout of 128 x 256 x 14 x 14 activations, probability one half.
#include "util.h"
#include "rand.h"
#include "kernel.inc"

// the library's rule for its grids: a line of blocks, folded into two dimensions above 65535
static dim3 grid_for(size_t n, int block) {
    size_t k = (n - 1) / block + 1, x = k, y = 1;
    if (x > 65535) { x = (size_t)std::ceil(std::sqrt((double)k)); y = (n - 1) / (x * block) + 1; }
    return dim3((unsigned)x, (unsigned)y, 1);
}

__global__ void fill_uniform(float4 *out, int n4) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) out[i] = four_uniforms(i);
}
int main() {
    const int block = 512, n = 128 * 256 * 14 * 14; const float prob = 0.5f, scale = 1.0f / (1.0f - prob);
    Rng r; std::vector<float> x(n);
    for (auto &v : x) { float t = r.uni() + r.uni() - 1.0f; v = t > 0 ? t : 0.1f * t; }
    float *x0 = up(x), *dx, *dr; CK(cudaMalloc(&dx, n * sizeof(float))); CK(cudaMalloc(&dr, n * sizeof(float)));
    fill_uniform<<<(n / 4 + 255) / 256, 256>>>((float4 *)dr, n / 4);
    CK(cudaGetLastError());
    for (int it = 0; it < 6; it++) {
        CK(cudaMemcpy(dx, x0, n * sizeof(float), cudaMemcpyDeviceToDevice));
        yoloswag420blazeit360noscope<<<grid_for(n, block), block>>>(dx, n, dr, prob, scale);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto o = down(dx, n); auto u = down(dr, n);
    int bad = 0; double sum = 0;
    for (int e = 0; e < n; e++) { if (o[e] != (u[e] < prob ? 0.0f : x[e] * scale)) bad++; sum += fabs(o[e]); }
    if (bad) printf("FAIL %d of %d\n", bad, n); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
