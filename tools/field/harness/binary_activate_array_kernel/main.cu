// Darknet's gated product of two halves of each sample: 32 samples of 512 x 52 x 52.
#include "util.h"
typedef enum { MULT, ADD, SUB, DIV } BINARY_ACTIVATION;
#include "kernel.inc"
#ifndef PER_THREAD
#define PER_THREAD 1
#endif
int main()
{
    const int block = 512, batch = 32, s = 512 * 52 * 52, n = batch * s, half = n / 2;
    float* x = device_uniform<float>(n, 1, -1.0f, 1.0f);
    float* y = device_zero<float>(half);
    int grid = (half / PER_THREAD - 1) / block + 1;     // the launcher's grid for n/2 (one row: fewer than 65536 blocks)
    for (int i = 0; i < 6; i++)
        binary_activate_array_kernel<<<grid, block>>>(x, half, s, MULT, y);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    auto hx = to_host(x, n), hy = to_host(y, half);
    bool ok = true;
    for (int i = 0; i < half && ok; i += 1013)
    {
        size_t at = (size_t)(i / s) * s + i % s;
        float e = hx[at] * hx[at + s / 2];
        if (fabsf(hy[i] - e) > 1e-6f) { printf("FAIL at %d: %g %g\n", i, hy[i], e); ok = false; }
    }
    if (ok) printf("PASS\n");
    printf("checksum %.4g\n", checksum(y, half));
    return !ok;
}
