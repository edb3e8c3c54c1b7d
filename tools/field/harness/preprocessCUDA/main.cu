// Runs the backward preprocessCUDA of diff-gaussian-rasterization alone: 1M Gaussians with spherical harmonics of degree 3, a 1600x1060 picture.
#include "scene.h"
#include "glm_stub.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#include "auxiliary.h"
#include "kernel.inc"
#ifndef KERNEL_SMEM
#define KERNEL_SMEM 0
#endif

int main() {
    Scene s;
    const int P = s.P, M = s.M;
    std::vector<int> radii(P);
    std::vector<float> d_mean2d(3 * P), d_color(3 * P), d_cov(6 * P), d_mean(3 * P);
    std::vector<unsigned char> clamped(3 * P);
    int visible = 0;
    for (int i = 0; i < P; i++) {
        float t[3];
        s.to_view(i, t);
        bool in = t[2] > 0.2f && std::fabs(t[0]) < 1.02f * s.tan_x * t[2] && std::fabs(t[1]) < 1.02f * s.tan_y * t[2];
        radii[i] = in ? 1 + (int)(3 * s.focal_x * s.scale[3 * i] / t[2]) : 0;
        visible += in;
        for (int k = 0; k < 3; k++) {
            d_mean2d[3 * i + k] = in && k < 2 ? 1e-3f * s.quick() : 0.f;
            d_color[3 * i + k] = in ? 1e-3f * s.quick() : 0.f;
            d_mean[3 * i + k] = in ? 1e-3f * s.quick() : 0.f;
            clamped[3 * i + k] = s.quick() < -0.8f;
        }
        for (int k = 0; k < 6; k++) d_cov[6 * i + k] = in ? 1e-2f * s.quick() : 0.f;
    }
    float *pos = upload(s.pos), *scale = upload(s.scale), *rot = upload(s.rot), *sh = upload(s.sh), *proj = upload(s.proj), *cam = upload(std::vector<float>(s.cam, s.cam + 3));
    int* g_radii = upload(radii);
    bool* g_clamped = (bool*)upload(clamped);
    float *g_mean2d = upload(d_mean2d), *g_color = upload(d_color), *g_cov = upload(d_cov), *g_mean = upload(d_mean);
    float *g_sh = zeros<float>((size_t)3 * M * P), *g_scale = zeros<float>(3 * P), *g_rot = zeros<float>(4 * P);
    auto kernel = preprocessCUDA<NUM_CHANNELS>;
    if (KERNEL_SMEM > 0) CK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, KERNEL_SMEM));
    for (int it = 0; it < 6; it++) {
        CK(cudaMemcpy(g_mean, d_mean.data(), d_mean.size() * 4, cudaMemcpyHostToDevice));
        kernel<<<(P + 255) / 256, 256, KERNEL_SMEM>>>(P, s.D, M, (float3*)pos, g_radii, sh, g_clamped, (glm::vec3*)scale, (glm::vec4*)rot, 1.0f, proj,
            (glm::vec3*)cam, (float3*)g_mean2d, (glm::vec3*)g_mean, g_color, g_cov, g_sh, (glm::vec3*)g_scale, (glm::vec4*)g_rot);
        CK(cudaGetLastError());
        CK(cudaDeviceSynchronize());
    }

    auto h_sh = download(g_sh, (size_t)3 * M * P), h_scale = download(g_scale, 3 * P), h_rot = download(g_rot, 4 * P), h_mean = download(g_mean, 3 * P);
    int bad = 0;
    for (int i = 0; i < P; i += 89) {
        double b[16];
        s.basis(i, b);
        bool ok = true;
        for (int k = 0; k < 48; k++) {
            double want = radii[i] > 0 && !clamped[3 * i + k % 3] ? b[k / 3] * d_color[3 * i + k % 3] : 0;
            ok = ok && std::fabs(want - h_sh[(size_t)48 * i + k]) < 1e-7;
        }
        bad += !ok;
    }
    printf("visible %d checksum sh %.4g scale %.4g rot %.4g mean %.4g\n", visible, abs_sum(h_sh), abs_sum(h_scale), abs_sum(h_rot), abs_sum(h_mean));
    if (bad || visible < P / 4) printf("FAIL %d\n", bad);
    else printf("PASS\n");
    return bad ? 1 : 0;
}
