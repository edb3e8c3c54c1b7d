// StyleGAN3's generic filtered_lrelu in training: half, 4 x 128 channels upsampled to 570 x 570, signs written.
#include "util.h"
#include <c10/util/Half.h>
#include "filtered_lrelu.h"
#include "kernel.inc"
#ifndef ACT_GRID
#define ACT_GRID dim3((p.sShape.x - 1) / 128 + 1, p.sShape.y, p.xShape.z * p.xShape.w)
#define ACT_BLOCK dim3(128)
#endif
int main()
{
    const int W = 570, H = 570, C = 128, N = 4, SW = (W + 15) & ~15;
    const size_t n = (size_t)W * H * C * N, ns = (size_t)SW / 4 * H * C * N;
    __half* x0 = device_uniform<__half>(n, 1, -2.0f, 2.0f);
    __half* x = device_zero<__half>(n);
    unsigned char* s = device_zero<unsigned char>(ns);
    filtered_lrelu_act_kernel_params p = {};
    p.x = x; p.s = s;
    p.gain = sqrtf(2.0f); p.slope = 0.2f; p.clamp = 2.5f;
    p.xShape = make_int4(W, H, C, N);
    p.xStride.x = 1; p.xStride.y = W; p.xStride.z = (long long)W * H; p.xStride.w = (long long)W * H * C;
    p.sShape = make_int2(SW, H);
    p.sOfs = make_int2(0, 0);
    for (int i = 0; i < 6; i++)
    {
        CK(cudaMemcpy(x, x0, n * sizeof(__half), cudaMemcpyDeviceToDevice));
        filtered_lrelu_act_kernel<c10::Half, true, false><<<ACT_GRID, ACT_BLOCK>>>(p);
    }
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    bool ok = true;
    for (int q = 3; q < C * N && ok; q += 97)
    {
        auto hx = to_host(x0 + (size_t)q * W * H, W * H), hy = to_host(x + (size_t)q * W * H, W * H);
        auto hs = to_host(s + (size_t)q * (SW / 4) * H, SW / 4 * H);
        for (int i = 0; i < W * H && ok; i += 7)
        {
            float v = __half2float(hx[i]) * p.gain;
            int sign = v < 0 ? 1 : 0;
            if (sign) v *= p.slope;
            if (fabsf(v) > p.clamp) { v = v < 0 ? -p.clamp : p.clamp; sign = 2; }
            int col = i % W, got = hs[i / W * (SW / 4) + col / 4] >> (col % 4 * 2) & 3;
            bool edge = fabsf(fabsf(v) - p.clamp) < 1e-5f;
            if (fabsf(__half2float(hy[i]) - v) > 3e-3f || (got != sign && !edge)) { printf("FAIL at %d %d: %g %g, %d %d\n", q, i, __half2float(hy[i]), v, got, sign); ok = false; }
        }
    }
    if (ok) printf("PASS\n");
    printf("checksum %.4g %.4g\n", checksum(x, n), checksum(s, ns));
    return !ok;
}
