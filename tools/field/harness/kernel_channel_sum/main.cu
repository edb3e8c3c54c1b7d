// Sum over the classes inside the softmax of an ImageNet classifier: batch 256, 1000 classes, spatial size 1, float.
#include "common.h"
#include "caffe_stub.h"
namespace lib {
#include "kernel.inc"
}
int main() {
    const int num = 256, channels = 1000, spatial = 1, n = num * channels * spatial;
    Rng r;
    std::vector<float> x(n);
    for (auto& v : x) v = std::exp(r.norm() * 2.0f - 5.0f);      // exponentials after the maximum was taken off
    float* d_x = to_gpu(x);
    float* d_sum = gpu_new<float>(num * spatial);
    for (int it = 0; it < 6; ++it) {
        lib::kernel_channel_sum<float><<<blocks_for(num * spatial), kThreads>>>(num, channels, spatial, d_x, d_sum);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto out = to_cpu(d_sum, num * spatial);
    double sum = 0; bool ok = true;
    for (int i = 0; i < num * spatial; ++i) {
        sum += std::fabs(out[i]);
        double want = 0;
        for (int c = 0; c < channels; ++c) want += x[(size_t)(i / spatial * channels + c) * spatial + i % spatial];
        ok = ok && near(out[i], want, 1e-5);
    }
    puts(ok ? "PASS" : "FAIL values");
    printf("checksum %.4g\n", sum);
    return ok ? 0 : 1;
}
