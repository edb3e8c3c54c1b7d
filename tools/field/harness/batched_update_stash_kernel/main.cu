// The last 720 samples of half-second chunks (8000 samples) of 600 utterances into their channels' stashes.
#include "kaldi_stub.h"
#include "cudafeat/lane-desc.h"
namespace kaldi {
#include "kernel.inc"
}
using namespace kaldi;
#ifndef BLOCK
#define BLOCK 1024
#endif
int main() {
    const int NL = 600, NC = 1200, CHUNK = 8000, LDW = 8064, NS = 720, LDS = 768;
    srand(5);
    std::vector<LaneDesc> d(NL);
    std::vector<float> w((size_t)NL * LDW), st((size_t)NC * LDS);
    for (auto& v : w) v = rand() % 4001 - 2000;
    for (auto& v : st) v = rand() % 4001 - 2000;
    for (int i = 0; i < NL; ++i) d[i] = {(i * 7 + 5) % NC, i % 20 == 3 ? 100 + rand() % 7900 : CHUNK, 0, 50, 0, i % 20 == 3, 0};
    for (int i = 0; i < 6; ++i) d[i * 97].num_chunk_samples = 101 + 90 * i;
    LaneDesc* dd; float *dw, *d0, *ds;
    CK(cudaMalloc(&dd, NL * sizeof(LaneDesc))); CK(cudaMalloc(&dw, w.size() * 4)); CK(cudaMalloc(&d0, st.size() * 4)); CK(cudaMalloc(&ds, st.size() * 4));
    CK(cudaMemcpy(dd, d.data(), NL * sizeof(LaneDesc), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dw, w.data(), w.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(d0, st.data(), st.size() * 4, cudaMemcpyHostToDevice));
    for (int it = 0; it < 6; ++it) {
        CK(cudaMemcpy(ds, d0, st.size() * 4, cudaMemcpyDeviceToDevice));
        batched_update_stash_kernel<<<NL, BLOCK>>>(dd, NL, dw, LDW, ds, NS, LDS);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<float> o(st.size()), e(st);
    CK(cudaMemcpy(o.data(), ds, o.size() * 4, cudaMemcpyDeviceToHost));
    for (int l = 0; l < NL; ++l) for (int i = 0; i < NS; ++i) {
        const int k = d[l].num_chunk_samples - NS + i;
        e[(size_t)d[l].channel * LDS + i] = k < 0 ? st[(size_t)d[l].channel * LDS + k + NS] : w[(size_t)l * LDW + k];
    }
    int bad = 0; double s = 0;
    for (size_t i = 0; i < o.size(); ++i) { if (o[i] != e[i]) ++bad; s += o[i] < 0 ? -o[i] : o[i]; }
    printf("%s %d\nchecksum %.4g\n", bad ? "FAIL" : "PASS", bad, s);
}
