// Gradient of a 3x3 stride 1 pad 1 average pool on 32 x 320 x 28 x 28 (Inception with batch normalisation), float.
#include "common.h"
#include "caffe_stub.h"
namespace lib {
#include "kernel.inc"
}
int main() {
    const int N = 32, C = 320, H = 28, W = 28, K = 3, S = 1, P = 1, PH = 28, PW = 28;
    const int n = N * C * H * W, np = N * C * PH * PW;
    Rng r;
    std::vector<float> top(np);
    for (auto& v : top) v = r.norm() * 0.01f;
    float* d_top = to_gpu(top);
    float* d_bot = gpu_new<float>(n);
    for (int it = 0; it < 6; ++it) {
        lib::AvePoolBackward<float><<<blocks_for(n), kThreads>>>(n, d_top, N, C, H, W, PH, PW, K, K, S, S, P, P, d_bot);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto out = to_cpu(d_bot, n);
    double sum = 0; bool ok = true;
    for (int i = 0; i < n; ++i) {
        sum += std::fabs(out[i]);
        if (i % 37 != 0 && i < n - 5000) continue;
        int w = i % W, h = i / W % H, plane = i / (W * H);
        double want = 0;
        for (int ph = 0; ph < PH; ++ph) {
            if (h < ph * S - P || h >= ph * S - P + K) continue;
            for (int pw = std::max(0, w - 3); pw < std::min(PW, w + 4); ++pw)
                if (w >= pw * S - P && w < pw * S - P + K)
                    want += top[(size_t)plane * PH * PW + ph * PW + pw] / (double)(K * K);   // no window is cut at stride 1, pad 1
        }
        ok = ok && std::fabs(out[i] - want) <= 1e-6;
    }
    puts(ok ? "PASS" : "FAIL values");
    printf("checksum %.4g\n", sum);
    return ok ? 0 : 1;
}
