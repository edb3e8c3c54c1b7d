// Flush of the saved context of 200 utterances: 56 context frames of 40 features, 28 copies of the last one, 100-wide i-vectors.
#include "kaldi_stub.h"
#include "cudadecoder/batched-static-nnet3-kernels.h"
namespace kaldi { namespace cuda_decoder {
#include "kernel.inc"
} }
using namespace kaldi; using namespace kaldi::cuda_decoder;
#ifndef GRID
#define GRID dim3(1, FR, B)
#define BLOCK dim3(64, 1, 1)
#endif
int main() {
    const int B = 200, CH = 400, DIM = 40, ST = 128, CTX = 56, RC = 28, FR = 106, IV = 100;
    srand(11);
    std::vector<float> ctx((size_t)CH * CTX * ST), iv((size_t)B * ST);
    for (auto& v : ctx) v = rand() / (float)RAND_MAX - 0.5f;
    for (auto& v : iv) v = rand() / (float)RAND_MAX - 0.5f;
    float *dctx, *dout, *div_, *diout; BatchSlotAssignment* das;
    const size_t on = (size_t)B * FR * ST;
    CK(cudaMalloc(&dctx, ctx.size() * 4)); CK(cudaMalloc(&dout, on * 4)); CK(cudaMalloc(&div_, iv.size() * 4)); CK(cudaMalloc(&diout, iv.size() * 4));
    CK(cudaMalloc(&das, B * sizeof(*das))); CK(cudaMemset(dout, 0, on * 4)); CK(cudaMemset(diout, 0, iv.size() * 4));
    CK(cudaMemcpy(dctx, ctx.data(), ctx.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(div_, iv.data(), iv.size() * 4, cudaMemcpyHostToDevice));
    std::vector<BatchSlotAssignment> as(B);
    std::vector<int> perm(CH);
    for (int i = 0; i < CH; ++i) perm[i] = i;
    for (int i = CH - 1; i > 0; --i) std::swap(perm[i], perm[rand() % (i + 1)]);
    for (int i = 0; i < B; ++i) as[i] = {nullptr, div_ + (size_t)i * ST, perm[i], i % 20 == 7 ? 20 + rand() % 36 : CTX, 0};
    CK(cudaMemcpy(das, as.data(), B * sizeof(*das), cudaMemcpyHostToDevice));
    BatchedStaticNnet3KernelParams p{};
    p.d_batch_slot_assignement = das; p.d_all_context_frames = dctx; p.d_batch_with_context = dout; p.d_batch_ivectors = diout; p.d_batch_ivectors_stride = ST;
    p.batch_size = B; p.d_features_frame_stride = ST; p.d_all_context_frames_frame_stride = ST; p.d_batch_with_context_frame_stride = ST;
    p.d_all_context_frames_channel_stride = ST * CTX; p.d_batch_with_context_batch_stride = ST * FR; p.input_dim = DIM; p.ivector_dim = IV;
    p.total_nnet_context = CTX; p.total_nnet_left_context = CTX - RC; p.total_nnet_right_context = RC; p.input_frames_per_chunk_with_context = FR;
    for (int it = 0; it < 6; ++it) {
        build_batch_with_context_context_flush_kernel<<<GRID, BLOCK>>>(p);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<float> o(on), io(iv.size());
    CK(cudaMemcpy(o.data(), dout, on * 4, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(io.data(), diout, io.size() * 4, cudaMemcpyDeviceToHost));
    int bad = 0; double s = 0;
    for (int b = 0; b < B; ++b) {
        const int n = as[b].n_frames_already_in_context;
        for (int f = 0; f < FR; ++f) for (int d = 0; d < ST; ++d) {
            const float e = d < DIM && f < n + RC ? ctx[((size_t)as[b].ichannel * CTX + std::min(f, n - 1)) * ST + d] : 0.f;
            if (o[((size_t)b * FR + f) * ST + d] != e) ++bad;
            s += e < 0 ? -e : e;
        }
        for (int d = 0; d < IV; ++d) if (io[(size_t)b * ST + d] != iv[(size_t)b * ST + d]) ++bad;
    }
    printf("%s %d\nchecksum %.4g\n", bad ? "FAIL" : "PASS", bad, s);
}
