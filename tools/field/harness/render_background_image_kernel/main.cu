// Background spheres (64 layers, 2048x1024 texels) of a 980x545 picture: rays that the foreground left open.
#include "torch_stub.h"
#include <vector>
#include "cuda_util.cuh"
#include "data_spec_packed.cuh"
#include "render_util.inc"
namespace { namespace device {
#include "kernel.inc"
} }
#define HD __host__ __device__
HD static uint32_t mix(uint32_t h) { h ^= h >> 16; h *= 0x7feb352du; h ^= h >> 15; h *= 0x846ca68bu; return h ^ h >> 16; }
// one block per kept texel; thread t = layer * 4 + channel
__global__ void fill_texels(const int* where, float* data, int reso) {
    const int p = where[blockIdx.x], x = p / reso, y = p % reso, layer = threadIdx.x >> 2, ch = threadIdx.x & 3;
    const float u = (mix(p * 256u + threadIdx.x) >> 8) * (1.f / 16777216.f);
    const int depth = 20 + (int)(18.f * sinf(x * 0.013f) * cosf(y * 0.021f)) + (int)(mix(x / 40 * 977 + y / 40) % 8);
    float v = u - 0.5f;
    if (ch == 3) v = (layer >= depth && layer < depth + 3) ? 60.f + 20.f * u : (mix(x / 8 * 4099 + y / 8 * 17 + layer) % 100 < 35 ? 0.1f + 0.2f * u : -1.f - u);
    data[(size_t)blockIdx.x * 256 + threadIdx.x] = v;
}
int main() {
    const int W = 980, H = 545, RB = 1024, NL = 64, R = 640;
    std::vector<int32_t> bl(2 * RB * RB, -1), where;
    for (int x = 0; x < 2 * RB; ++x) for (int y = 0; y < RB; ++y)
        if (y < 700 && sinf(x * 0.004f + 1.f) + sinf(y * 0.011f) > -0.9f) { bl[x * RB + y] = (int)where.size(); where.push_back(x * RB + y); }
    std::vector<float> lt(W * H), fg(W * H * 3, 0.25f);
    for (int i = 0; i < H; ++i) for (int j = 0; j < W; ++j) {
        const float edge = 0.55f * H + 0.08f * H * sinf(j * 0.02f) + 0.03f * H * sinf(j * 0.11f), u = (mix(i * W + j) >> 8) * (1.f / 16777216.f);
        lt[i * W + j] = i < edge ? -0.3f * u : i < edge + 12 ? -4.f * u : -1000.f;
    }
    int *dbl, *dw, *dlk; float *dd, *dlt, *dfg, *dout, *dc;
    CK(cudaMalloc(&dbl, bl.size() * 4)); CK(cudaMalloc(&dw, where.size() * 4)); CK(cudaMalloc(&dd, where.size() * 1024)); CK(cudaMalloc(&dlt, lt.size() * 4));
    CK(cudaMalloc(&dfg, fg.size() * 4)); CK(cudaMalloc(&dout, fg.size() * 4)); CK(cudaMalloc(&dc, 48)); CK(cudaMalloc(&dlk, 4));
    CK(cudaMemcpy(dbl, bl.data(), bl.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dw, where.data(), where.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dlt, lt.data(), lt.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dfg, fg.data(), fg.size() * 4, cudaMemcpyHostToDevice));
    fill_texels<<<(unsigned)where.size(), 256>>>(dw, dd, RB);
    CK(cudaDeviceSynchronize());
    const float c = cosf(0.4f), s = sinf(0.4f), c2w[12] = {c, 0, s, 0.22f, 0, 1, 0, -0.10f, -s, 0, c, -0.31f};
    CK(cudaMemcpy(dc, c2w, 48, cudaMemcpyHostToDevice));
    float off[3] = {R * 0.5f - 0.5f, R * 0.5f - 0.5f, R * 0.5f - 0.5f}, sc[3] = {R * 0.5f, R * 0.5f, R * 0.5f};
    SparseGridSpec spec{};
    spec.density_data = torch::Tensor(dd, 1, 1); spec.sh_data = torch::Tensor(dd, 1, 27); spec.links = torch::Tensor(dlk, R, R, R);
    spec._offset = torch::Tensor(off, 3); spec._scaling = torch::Tensor(sc, 3); spec.basis_dim = 9; spec.basis_type = 1;
    spec.background_links = torch::Tensor(dbl, 2 * RB, RB); spec.background_data = torch::Tensor(dd, (int64_t)where.size(), NL, 4);
    CameraSpec cs{}; cs.c2w = torch::Tensor(dc, 3, 4); cs.fx = cs.fy = 580.f; cs.cx = W / 2.f; cs.cy = H / 2.f; cs.width = W; cs.height = H; cs.ndc_coeffx = cs.ndc_coeffy = -1.f;
    RenderOptions opt{}; opt.background_brightness = 1.f; opt.step_size = 0.5f; opt.sigma_thresh = 1e-8f; opt.stop_thresh = 1e-7f;
    const int blocks = (W * H - 1) / device::TRACE_RAY_BG_CUDA_THREADS + 1;
    for (int it = 0; it < 6; ++it) {
        CK(cudaMemcpy(dout, dfg, fg.size() * 4, cudaMemcpyDeviceToDevice));
        device::render_background_image_kernel<<<blocks, device::TRACE_RAY_BG_CUDA_THREADS>>>(spec, cs, opt, dlt, dout);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<float> o(fg.size());
    CK(cudaMemcpy(o.data(), dout, o.size() * 4, cudaMemcpyDeviceToHost));
    int bad = 0, lit = 0; double sum = 0;
    for (int i = 0; i < W * H; ++i) for (int k = 0; k < 3; ++k) {
        const float v = o[3 * i + k];
        if (lt[i] < -25.f ? v != 0.25f : !(v >= 0.25f && v < 4.f)) ++bad;
        if (v > 0.26f) ++lit;
        sum += v;
    }
    printf("%s %d\nchecksum %.4g\n", bad || lit < W * H / 2 ? "FAIL" : "PASS", bad, sum);
}
