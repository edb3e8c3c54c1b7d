// ELU activation of a 64 x 96 x 55 x 55 blob (AlexNet conv1 with ELU), float, alpha 1.
#include "common.h"
#include "caffe_stub.h"
namespace lib {
#include "kernel.inc"
}
int main() {
    const int n = 64 * 96 * 55 * 55;
    const float alpha = 1.0f;
    Rng r;
    std::vector<float> in(n);
    for (auto& v : in) v = r.norm();
    float* d_in = to_gpu(in);
    float* d_out = gpu_new<float>(n);
    for (int it = 0; it < 6; ++it) {
        lib::ELUForward<float><<<blocks_for(n), kThreads>>>(n, d_in, d_out, alpha);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto out = to_cpu(d_out, n);
    double sum = 0; bool ok = true;
    for (int i = 0; i < n; ++i) {
        sum += std::fabs(out[i]);
        if (i % 97 == 0 || i > n - 5000) {
            double x = in[i], want = x > 0 ? x : alpha * (std::exp(x) - 1.0);
            ok = ok && near(out[i], want, 1e-5);
        }
    }
    puts(ok ? "PASS" : "FAIL values");
    printf("checksum %.4g\n", sum);
    return ok ? 0 : 1;
}
