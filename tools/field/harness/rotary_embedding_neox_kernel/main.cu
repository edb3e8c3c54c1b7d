// Rotary embedding of queries and keys in half: 4 sequences of 512 tokens, 32 heads of 128.
#include "util.h"
#include "half_type.h"
#include <algorithm>
#include "kernel.inc"

int main() {
    const int seqs = 4, len = 512, tokens = seqs * len, heads = 32, hs = 128, rot = 128, stride = heads * hs, maxpos = 2048;
    const int block = std::min(heads * rot / 2, 512);
    Rng r; const size_t N = (size_t)tokens * stride;
    std::vector<Half> q(N), k(N), cs((size_t)maxpos * rot); std::vector<int64_t> pos(tokens);
    for (auto &v : q) v = Half(r.normal());
    for (auto &v : k) v = Half(r.normal());
    for (int t = 0; t < tokens; t++) pos[t] = t % len;
    for (int p = 0; p < maxpos; p++) for (int i = 0; i < rot / 2; i++) {
        double a = p / pow(10000.0, 2.0 * i / rot);
        cs[(size_t)p * rot + i] = Half((float)cos(a)); cs[(size_t)p * rot + rot / 2 + i] = Half((float)sin(a));
    }
    Half *q0 = up(q), *k0 = up(k), *dc = up(cs), *dq, *dk; int64_t *dp = up(pos);
    CK(cudaMalloc(&dq, N * sizeof(Half))); CK(cudaMalloc(&dk, N * sizeof(Half)));
    for (int it = 0; it < 6; it++) {
        CK(cudaMemcpy(dq, q0, N * sizeof(Half), cudaMemcpyDeviceToDevice));
        CK(cudaMemcpy(dk, k0, N * sizeof(Half), cudaMemcpyDeviceToDevice));
        rotary_embedding_neox_kernel<Half><<<tokens, block>>>(dp, dq, dk, dc, rot, stride, heads, hs);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto oq = down(dq, N), ok = down(dk, N);
    int bad = 0;
    for (int s = 0; s < 20000; s++) {
        int t = r.next() % tokens, h = r.next() % heads, i = r.next() % 64; size_t e = (size_t)t * stride + h * hs + i;
        double c = (float)cs[pos[t] * rot + i], n = (float)cs[pos[t] * rot + 64 + i];
        double w[4] = {(float)q[e] * c - (float)q[e + 64] * n, (float)q[e + 64] * c + (float)q[e] * n,
                       (float)k[e] * c - (float)k[e + 64] * n, (float)k[e + 64] * c + (float)k[e] * n};
        double g[4] = {(float)oq[e], (float)oq[e + 64], (float)ok[e], (float)ok[e + 64]};
        for (int z = 0; z < 4; z++) if (!(fabs(w[z] - g[z]) < 0.01)) bad++;
    }
    double sum = 0; for (size_t e = 0; e < N; e++) sum += fabs((float)oq[e]) + fabs((float)ok[e]);
    if (bad) printf("FAIL %d\n", bad); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
