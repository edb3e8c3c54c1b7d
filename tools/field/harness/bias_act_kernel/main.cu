// StyleGAN discriminator layer in half: lrelu with bias, gain and clamp over 8 x 128 x 256 x 256.
#include "util.h"
#include <c10/util/Half.h>
#include "bias_act.h"
#include "kernel.inc"
#ifndef LOOP
#define LOOP 4
#endif
int main()
{
    const int batch = 8, channels = 128, plane = 256 * 256, n = batch * channels * plane;
    __half* x = device_uniform<__half>(n, 1, -2.0f, 2.0f);
    __half* b = device_uniform<__half>(channels, 2, -0.5f, 0.5f);
    __half* y = device_zero<__half>(n);
    bias_act_kernel_params p = {};
    p.x = x; p.b = b; p.y = y;
    p.grad = 0; p.act = 3; p.alpha = 0.2f; p.gain = sqrtf(2.0f); p.clamp = 2.5f;
    p.sizeX = n; p.sizeB = channels; p.stepB = plane; p.loopX = LOOP;
    int block = 4 * 32, grid = (n - 1) / (p.loopX * block) + 1;
    for (int i = 0; i < 6; i++)
        bias_act_kernel<c10::Half, 3><<<grid, block>>>(p);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    auto hx = to_host(x, n), hb = to_host(b, channels), hy = to_host(y, n);
    bool ok = true;
    for (int i = 0; i < n && ok; i += 9973)
    {
        float v = __half2float(hx[i]) + __half2float(hb[i / plane % channels]);
        v = (v > 0 ? v : v * p.alpha) * p.gain;
        v = std::min(std::max(v, -p.clamp), p.clamp);
        if (fabsf(__half2float(hy[i]) - v) > 3e-3f) { printf("FAIL at %d: %g %g\n", i, __half2float(hy[i]), v); ok = false; }
    }
    if (ok) printf("PASS\n");
    printf("checksum %.4g\n", checksum(y, n));
    return !ok;
}
