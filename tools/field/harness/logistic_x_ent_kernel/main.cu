// Darknet's logistic cross-entropy over a batch of 8 masks of 81 classes at 104 x 104.
#include "util.h"
#include "kernel.inc"
#ifndef PER_THREAD
#define PER_THREAD 1
#endif
int main()
{
    const int block = 512;
    const int n = 8 * 81 * 104 * 104;
    float* pred = device_uniform<float>(n, 1, 0.001f, 0.999f);
    std::vector<float> ht(n);
    for (int i = 0; i < n; i++) ht[i] = hash01(i / 13, 2) < 0.08f ? 1.0f : 0.0f;
    float* truth = device_zero<float>(n);
    CK(cudaMemcpy(truth, ht.data(), n * 4ull, cudaMemcpyHostToDevice));
    float *delta = device_zero<float>(n), *error = device_zero<float>(n);
    int grid = (n / PER_THREAD - 1) / block + 1;
    for (int i = 0; i < 6; i++)
        logistic_x_ent_kernel<<<grid, block>>>(n, pred, truth, delta, error);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    auto hp = to_host(pred, n), hd = to_host(delta, n), he = to_host(error, n);
    bool ok = true;
    for (int i = 0; i < n && ok; i += 997)
    {
        double t = ht[i], p = hp[i], e = -t * log(p + 1e-7) - (1 - t) * log(1 - p + 1e-7);
        if (fabs(he[i] - e) > 1e-4 + 1e-4 * fabs(e) || fabs(hd[i] - (t - p)) > 1e-5) { printf("FAIL at %d: %g %g\n", i, he[i], e); ok = false; }
    }
    if (ok) printf("PASS\n");
    printf("checksum %.4g %.4g\n", checksum(error, n), checksum(delta, n));
    return !ok;
}
