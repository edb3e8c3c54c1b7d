// Runs fps_kernel of pytorch_cluster alone: farthest point sampling of half the points of 32 clouds of 1024 points (the first set abstraction of a
// PointNet++ classifier).
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "kernel.inc"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

template <class T> static T* upload(const std::vector<T>& v) {
    T* d;
    CK(cudaMalloc(&d, v.size() * sizeof(T)));
    CK(cudaMemcpy(d, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return d;
}

int main() {
    const int B = 32, n = 1024, dim = 3, keep = n / 2;
    std::mt19937 rng(3);
    std::uniform_real_distribution<float> uni(-1.f, 1.f);
    std::normal_distribution<float> gauss(0.f, 1.f);
    std::vector<float> src(B * n * dim), dist(B * n, 5e4f);
    std::vector<int64_t> ptr(B + 1), out_ptr(B + 1), start(B);
    for (int b = 0; b <= B; b++) ptr[b] = b * n, out_ptr[b] = b * keep;
    for (int b = 0; b < B; b++) {
        start[b] = rng() % n;
        float axis[3] = {0.4f + 0.3f * uni(rng), 0.4f + 0.3f * uni(rng), 0.4f + 0.3f * uni(rng)};
        for (int i = 0; i < n; i++) {  // points on an ellipsoid or on a box around it
            float v[3], size = 0;
            bool box = i % 3 == 0;
            for (int k = 0; k < 3; k++) v[k] = box ? uni(rng) : gauss(rng), size = box ? std::fmax(size, std::fabs(v[k])) : size + v[k] * v[k];
            if (!box) size = std::sqrt(size);
            for (int k = 0; k < 3; k++) src[(b * n + i) * 3 + k] = axis[k] * v[k] / size;
        }
    }

    float *d_src = upload(src), *d_dist = upload(dist);
    int64_t *d_ptr = upload(ptr), *d_out_ptr = upload(out_ptr), *d_start = upload(start), *d_out;
    CK(cudaMalloc(&d_out, B * keep * 8));
    for (int it = 0; it < 6; it++) {
        CK(cudaMemcpy(d_dist, dist.data(), dist.size() * 4, cudaMemcpyHostToDevice));
        fps_kernel<float><<<B, THREADS>>>(d_src, d_ptr, d_out_ptr, d_start, d_dist, d_out, dim);
        CK(cudaGetLastError());
        CK(cudaDeviceSynchronize());
    }
    std::vector<int64_t> out(B * keep);
    CK(cudaMemcpy(out.data(), d_out, out.size() * 8, cudaMemcpyDeviceToHost));

    int bad = 0;
    for (int b = 0; b < B; b++) {
        std::vector<float> near(n, 5e4f);
        int64_t old = b * n + start[b];
        bad += out[b * keep] != old;
        for (int m = 1; m < keep; m++) {
            float best = -1;
            int64_t next = 0;
            for (int i = b * n; i < b * n + n; i++) {
                float d = 0;
                for (int k = 0; k < 3; k++) {
                    float t = src[old * 3 + k] - src[i * 3 + k];
                    d = std::fma(t, t, d);
                }
                near[i - b * n] = std::fmin(near[i - b * n], d);
                if (near[i - b * n] > best) best = near[i - b * n], next = i;
            }
            bad += out[b * keep + m] != next;
            old = next;
        }
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < out.size(); i++) sum += (uint64_t)out[i] * (i + 1);
    printf("checksum %016llx\n", (unsigned long long)sum);
    if (bad) printf("FAIL %d of %d samples differ\n", bad, B * keep);
    else printf("PASS\n");
    return bad ? 1 : 0;
}
