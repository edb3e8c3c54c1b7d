// Backward step of the LSTM unit: 256 streams, 1024 cells, one time step, float. About one stream in 20 starts a new sequence.
#include "common.h"
#include "caffe_stub.h"
namespace lib {
#include "kernel.inc"
}
int main() {
    const int N = 256, dim = 1024, n = N * dim;
    Rng r;
    std::vector<float> cp(n), X(4 * n), C(n), Hh(n), cont(N), cd(n), hd(n);
    for (int i = 0; i < N; ++i) cont[i] = r.uni() < 0.05f ? 0.0f : 1.0f;
    for (int i = 0; i < N; ++i) for (int g = 0; g < 4; ++g) for (int d = 0; d < dim; ++d)
        X[(i * 4 + g) * dim + d] = g < 3 ? 1.0f / (1.0f + std::exp(-r.norm())) : std::tanh(r.norm());
    for (auto& v : cp) v = r.norm() * 0.5f;
    for (int i = 0; i < n; ++i) {
        int b = i / dim, d = i % dim; const float* x = &X[4 * dim * b + d];
        C[i] = cont[b] * x[dim] * cp[i] + x[0] * x[3 * dim];
        Hh[i] = x[2 * dim] * std::tanh(C[i]);
    }
    for (auto& v : cd) v = r.norm() * 0.1f;
    for (auto& v : hd) v = r.norm() * 0.1f;
    float *dcp = to_gpu(cp), *dX = to_gpu(X), *dC = to_gpu(C), *dH = to_gpu(Hh), *dcont = to_gpu(cont), *dcd = to_gpu(cd), *dhd = to_gpu(hd);
    float *o_cp = gpu_new<float>(n), *o_X = gpu_new<float>(4 * n);
    for (int it = 0; it < 6; ++it) {
        lib::LSTMUnitBackward<float><<<blocks_for(n), kThreads>>>(n, dim, dcp, dX, dC, dH, dcont, dcd, dhd, o_cp, o_X);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto a = to_cpu(o_cp, n), b = to_cpu(o_X, 4 * n);
    double sum = 0; bool ok = true;
    for (float v : a) sum += std::fabs(v);
    for (float v : b) sum += std::fabs(v);
    for (int i = 0; i < n; ++i) {
        int s = i / dim, d = i % dim; size_t o = (size_t)4 * dim * s + d;
        double t = std::tanh((double)C[i]), term = cd[i] + hd[i] * (double)X[o + 2 * dim] * (1 - t * t);
        ok = ok && near(a[i], cont[s] * term * X[o + dim], 2e-6) && near(b[o], term * X[o + 3 * dim], 2e-6)
                && near(b[o + dim], cont[s] * term * cp[i], 2e-6) && near(b[o + 2 * dim], hd[i] * t, 2e-6)
                && near(b[o + 3 * dim], term * X[o], 2e-6);
    }
    puts(ok ? "PASS" : "FAIL values");
    printf("checksum %.4g\n", sum);
    return ok ? 0 : 1;
}
