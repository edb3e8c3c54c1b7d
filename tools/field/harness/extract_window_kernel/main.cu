// Windows (400 samples every 160, padded to 512) of a ten-minute recording at 16 kHz.
#include "kaldi_stub.h"
#define CU1DBLOCK 256
using namespace kaldi;
#include "kernel.inc"
#ifndef GRID
#define GRID NF
#define BLOCK CU1DBLOCK
#endif
int main() {
    const int NF = 60000, SH = 160, LEN = 400, PAD = 512, N = (NF - 1) * SH + LEN;
    srand(9);
    std::vector<float> w(N);
    for (auto& v : w) v = rand() % 4001 - 2000;
    float *dw, *dout; const size_t on = (size_t)NF * PAD;
    CK(cudaMalloc(&dw, (size_t)N * 4)); CK(cudaMalloc(&dout, on * 4)); CK(cudaMemset(dout, 0xff, on * 4));
    CK(cudaMemcpy(dw, w.data(), (size_t)N * 4, cudaMemcpyHostToDevice));
    for (int it = 0; it < 6; ++it) {
        extract_window_kernel<<<GRID, BLOCK>>>(SH, LEN, PAD, LEN, true, 0, dw, N, dout, PAD);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<float> o(on);
    CK(cudaMemcpy(o.data(), dout, on * 4, cudaMemcpyDeviceToHost));
    int bad = 0; double s = 0;
    for (int f = 0; f < NF; ++f) for (int i = 0; i < PAD; ++i) {
        const float v = o[(size_t)f * PAD + i];
        if (!(v == (i < LEN ? w[(size_t)f * SH + i] : 0.f))) ++bad;
        s += v < 0 ? -v : v;
    }
    printf("%s %d\nchecksum %.4g\n", bad ? "FAIL" : "PASS", bad, s);
}
