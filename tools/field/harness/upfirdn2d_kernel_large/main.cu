// StyleGAN3-R's initial blur of the discriminator's input: 4 x 3 x 1024 x 1024 floats, 61 taps along x, same size.
#include "util.h"
#include <c10/util/Half.h>
#include "upfirdn2d.h"
#include "kernel.inc"
#ifndef UP_BLOCK
#define UP_BLOCK dim3(4, 32, 1)
#define UP_GRID dim3(((p.outSize.y - 1) / 4 + 1) * p.launchMinor, (p.outSize.x - 1) / (32 * p.loopX) + 1, p.launchMajor)
#endif
int main()
{
    const int W = 1024, H = 1024, C = 3, N = 4, taps = 61;
    const size_t n = (size_t)W * H * C * N;
    float* x = device_uniform<float>(n, 1, -1.0f, 1.0f);
    float* y = device_zero<float>(n);
    std::vector<float> f(taps);
    float sum = 0;
    for (int i = 0; i < taps; i++) sum += f[i] = exp2f(-powf((i - 30) / 10.0f, 2)) * (1.0f + 0.002f * i);
    for (float& v : f) v /= sum;
    float* df = device_zero<float>(taps);
    CK(cudaMemcpy(df, f.data(), taps * 4, cudaMemcpyHostToDevice));
    upfirdn2d_kernel_params p = {};
    p.x = x; p.f = df; p.y = y;
    p.up = p.down = make_int2(1, 1);
    p.pad0 = make_int2(30, 0);
    p.flip = 0; p.gain = 1.0f;
    p.inSize = p.outSize = make_int4(W, H, C, N);
    p.inStride = p.outStride = make_int4(1, W, W * H, W * H * C);
    p.filterSize = make_int2(taps, 1);
    p.filterStride = make_int2(1, taps);
    p.sizeMinor = 1; p.sizeMajor = N * C;
    p.loopMajor = 1; p.loopMinor = 1; p.loopX = 4;
    p.launchMinor = 1; p.launchMajor = p.sizeMajor;
    for (int i = 0; i < 6; i++)
        upfirdn2d_kernel_large<float><<<UP_GRID, UP_BLOCK>>>(p);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    auto hx = to_host(x, n), hy = to_host(y, n);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i += 4099)
    {
        int ox = (int)(i % W);
        double e = 0;
        for (int k = 0; k < taps; k++)
        {
            int ix = ox - 30 + k;
            if (ix >= 0 && ix < W) e += (double)hx[i - ox + ix] * f[taps - 1 - k];
        }
        if (fabs(hy[i] - e) > 1e-4) { printf("FAIL at %zu: %g %g\n", i, hy[i], e); ok = false; }
    }
    if (ok) printf("PASS\n");
    printf("checksum %.4g\n", checksum(y, n));
    return !ok;
}
