// The tokens of one frame of 200 utterances (3000 to 10000 each, a quarter on states that another token has) into the hash maps.
#include "kaldi_stub.h"
#include <unordered_map>
#include "cudadecoder/cuda-decoder-kernels.h"
#include "utils.inc"
namespace kaldi { namespace cuda_decoder {
#include "kernel.inc"
} }
using namespace kaldi; using namespace kaldi::cuda_decoder;
template <class T> T* dev(const std::vector<T>& v) { T* p; CK(cudaMalloc(&p, v.size() * sizeof(T))); CK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice)); return p; }
static uint32_t rs = 4242;
static uint32_t rnd() { rs = rs * 1664525u + 1013904223u; return rs >> 8; }
int main() {
    const int NL = 200, NC = 400, CAP = 40000; const uint32_t NSTATES = 12000000;
    std::vector<int2> q((size_t)NC * CAP, int2{0, 0});
    std::vector<LaneCounters> lc(NL + 1); std::vector<ChannelCounters> cc(NC);
    memset((void*)lc.data(), 0, lc.size() * sizeof(lc[0])); memset((void*)cc.data(), 0, cc.size() * sizeof(cc[0]));
    for (int l = 0; l < NL; ++l) {
        const int ch = (l * 7 + 3) % NC, n = 3000 + rnd() % 7001; int2* a = &q[(size_t)ch * CAP];
        int best = INT_MAX;
        for (int i = 0; i < n; ++i) {
            const uint32_t u = rnd() % 100;
            a[i].x = i && u < 25 ? a[i - 1 - rnd() % std::min(i, 100)].x : i && u < 50 ? std::min(a[i - 1].x + 1 + (int)(rnd() % 8), (int)NSTATES - 1) : (int)(rnd() % NSTATES);
            a[i].y = floatToOrderedIntHost(200.f + 15.f * sqrtf(rnd() / 16777216.f));
            best = std::min(best, a[i].y);
        }
        lc[l].channel_to_compute = ch; lc[l].main_q_narcs_and_end = {n * 3, n}; lc[l].min_int_cost = best; lc[l].main_q_global_offset = 100000 + l;
        lc[l].int_cutoff = floatToOrderedIntHost(orderedIntToFloatHost(best) + 15.f);
    }
    std::vector<HashmapValueT> empty((size_t)NL * CAP);
    for (auto& e : empty) { e.key = -1; e.count = 0; e.min_and_argmin_int_cost_u64 = ULLONG_MAX; }
    std::vector<int> zi((size_t)NL * CAP, 0);
    DeviceParams p; memset((void*)&p, 0, sizeof(p));
    int2 *q0 = dev(q), *qd = dev(q); LaneCounters *l0 = dev(lc), *ld = dev(lc); HashmapValueT *h0 = dev(empty), *hd = dev(empty); int *li = dev(zi), *hi = dev(zi);
    p.d_channels_counters = {dev(cc), 1}; p.d_lanes_counters = {ld, 1}; p.d_main_q_state_and_cost = {qd, CAP}; p.d_hashmap_values = {hd, CAP};
    p.d_main_q_n_extra_prev_tokens_local_idx = {li, CAP}; p.d_main_q_state_hash_idx = {hi, CAP}; p.hashmap_capacity = CAP; p.main_q_capacity = CAP; p.max_nlanes = NL;
    KernelParams kp{NL};
    for (int it = 0; it < 6; ++it) {
        CK(cudaMemcpy(qd, q0, q.size() * sizeof(int2), cudaMemcpyDeviceToDevice));
        CK(cudaMemcpy(ld, l0, lc.size() * sizeof(lc[0]), cudaMemcpyDeviceToDevice));
        CK(cudaMemcpy(hd, h0, empty.size() * sizeof(empty[0]), cudaMemcpyDeviceToDevice));
        fill_hashmap_with_main_q_kernel<<<KaldiCudaDecoderNumBlocks(NL), KALDI_CUDA_DECODER_1D_BLOCK>>>(p, kp);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<int2> qo(q.size()); std::vector<HashmapValueT> ho(empty.size()); std::vector<int> lo(zi.size()), xo(zi.size());
    CK(cudaMemcpy(qo.data(), qd, q.size() * sizeof(int2), cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(ho.data(), hd, ho.size() * sizeof(ho[0]), cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(lo.data(), li, lo.size() * 4, cudaMemcpyDeviceToHost)); CK(cudaMemcpy(xo.data(), hi, xo.size() * 4, cudaMemcpyDeviceToHost));
    int bad = 0; double s = 0;
    for (int l = 0; l < NL; ++l) {
        const int ch = lc[l].channel_to_compute, n = lc[l].main_q_narcs_and_end.y; const float mn = orderedIntToFloatHost(lc[l].min_int_cost);
        std::unordered_map<int, std::pair<int, unsigned long long>> m;
        std::unordered_map<int, long long> loc;
        for (int i = 0; i < n; ++i) {
            const int2 t = q[(size_t)ch * CAP + i]; const int c = floatToOrderedIntHost(orderedIntToFloatHost(t.y) - mn);
            auto& e = m.emplace(t.x, std::make_pair(0, ULLONG_MAX)).first->second;
            ++e.first; e.second = std::min(e.second, (unsigned long long)(uint32_t)c << 32 | (uint32_t)i);
            if (qo[(size_t)ch * CAP + i].y != c || qo[(size_t)ch * CAP + i].x != t.x) ++bad;
            loc[t.x] += lo[(size_t)l * CAP + i];
            s += orderedIntToFloatHost(c);
        }
        for (int i = 0; i < n; ++i) {
            const int st = q[(size_t)ch * CAP + i].x; const HashmapValueT& h = ho[(size_t)l * CAP + xo[(size_t)l * CAP + i]]; const auto& e = m[st];
            if (h.key != st || h.count != e.first || h.min_and_argmin_int_cost_u64 != e.second || loc[st] != (long long)e.first * (e.first - 1) / 2) ++bad;
        }
    }
    for (auto& h : ho) s += (double)h.count * h.count;
    printf("%s %d\nchecksum %.4g\n", bad ? "FAIL" : "PASS", bad, s);
}
