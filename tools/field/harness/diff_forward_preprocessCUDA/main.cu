// Runs the forward preprocessCUDA of diff-gaussian-rasterization alone: 1M Gaussians with spherical harmonics of degree 3, a 1600x1060 picture.
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
    const dim3 tiles((s.W + BLOCK_X - 1) / BLOCK_X, (s.H + BLOCK_Y - 1) / BLOCK_Y, 1);
    float *pos = upload(s.pos), *scale = upload(s.scale), *rot = upload(s.rot), *opacity = upload(s.opacity), *sh = upload(s.sh);
    float *view = upload(s.view), *proj = upload(s.proj), *cam = upload(std::vector<float>(s.cam, s.cam + 3));
    bool* clamped = zeros<bool>(3 * P);
    int* radii = zeros<int>(P);
    float2* xy = zeros<float2>(P);
    float *depth = zeros<float>(P), *cov = zeros<float>(6 * P), *rgb = zeros<float>(3 * P);
    float4* conic = zeros<float4>(P);
    uint32_t* touched = zeros<uint32_t>(P);
    auto kernel = preprocessCUDA<NUM_CHANNELS>;
    if (KERNEL_SMEM > 0) CK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, KERNEL_SMEM));
    for (int it = 0; it < 6; it++) {
        kernel<<<(P + 255) / 256, 256, KERNEL_SMEM>>>(P, s.D, M, pos, (glm::vec3*)scale, 1.0f, (glm::vec4*)rot, opacity, sh, clamped, nullptr, nullptr,
            view, proj, (glm::vec3*)cam, s.W, s.H, s.tan_x, s.tan_y, s.focal_x, s.focal_y, radii, xy, depth, cov, rgb, conic, tiles, touched, false);
        CK(cudaGetLastError());
        CK(cudaDeviceSynchronize());
    }

    auto h_radii = download(radii, P);
    auto h_xy = download(xy, P);
    auto h_depth = download(depth, P), h_rgb = download(rgb, 3 * P), h_cov = download(cov, 6 * P);
    auto h_touched = download(touched, P);
    auto h_conic = download(conic, P);
    double radius_sum = 0, tile_sum = 0, conic_sum = 0;
    int visible = 0, bad = 0;
    for (int i = 0; i < P; i++) {
        if (h_radii[i] <= 0) continue;
        visible++, radius_sum += h_radii[i], tile_sum += h_touched[i];
        conic_sum += std::fabs(h_conic[i].x) + std::fabs(h_conic[i].y) + std::fabs(h_conic[i].z) + h_conic[i].w;
        if (i % 97) continue;
        float t[3];
        s.to_view(i, t);
        double b[16], px = ((t[0] / t[2] / s.tan_x + 1) * s.W - 1) * 0.5, py = ((t[1] / t[2] / s.tan_y + 1) * s.H - 1) * 0.5;
        bool ok = std::fabs(t[2] - h_depth[i]) < 1e-3 && std::fabs(px - h_xy[i].x) < 0.05 + 1e-4 * std::fabs(px) && std::fabs(py - h_xy[i].y) < 0.05 + 1e-4 * std::fabs(py);
        s.basis(i, b);
        for (int c = 0; c < 3; c++) {
            double v = 0.5;
            for (int k = 0; k < 16; k++) v += b[k] * s.sh[(size_t)3 * M * i + 3 * k + c];
            ok = ok && std::fabs(std::fmax(v, 0.) - h_rgb[3 * i + c]) < 1e-3;
        }
        bad += !ok;
    }
    printf("visible %d checksum radii %.4g tiles %.4g depth %.4g rgb %.4g cov %.4g conic %.4g\n", visible, radius_sum, tile_sum, abs_sum(h_depth), abs_sum(h_rgb), abs_sum(h_cov), conic_sum);
    if (bad || visible < P / 4) printf("FAIL %d of %d\n", bad, visible);
    else printf("PASS\n");
    return bad ? 1 : 0;
}
