// Square root in place of a blob of 64 bilinear features of 512 x 512, float.
#include "common.h"
#include "caffe_stub.h"
namespace lib {
#include "kernel.inc"
}
int main() {
    const int n = 64 * 512 * 512;
    Rng r;
    std::vector<float> in(n);
    for (auto& v : in) { float a = r.norm(); v = a * a + 1e-5f; }
    float* d_in = to_gpu(in);
    float* d_y = gpu_new<float>(n);
    for (int it = 0; it < 6; ++it) {
        CK(cudaMemcpy(d_y, d_in, n * sizeof(float), cudaMemcpyDeviceToDevice));
        lib::sqrt_kernel<float><<<blocks_for(n), kThreads>>>(n, d_y, d_y);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto out = to_cpu(d_y, n);
    double sum = 0; bool ok = true;
    for (int i = 0; i < n; ++i) {
        sum += std::fabs(out[i]);
        if (i % 97 == 0 || i > n - 5000) ok = ok && near(out[i], std::sqrt((double)in[i]), 1e-6);
    }
    puts(ok ? "PASS" : "FAIL values");
    printf("checksum %.4g\n", sum);
    return ok ? 0 : 1;
}
