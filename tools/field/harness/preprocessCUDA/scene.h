// A synthetic scene of 3D Gaussians before one camera: a dense object, a wide background, about two thirds of it in the picture.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

template <class T> static T* upload(const std::vector<T>& v) {
    T* d;
    CK(cudaMalloc(&d, v.size() * sizeof(T)));
    CK(cudaMemcpy(d, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return d;
}
template <class T> static T* zeros(size_t n) {
    T* d;
    CK(cudaMalloc(&d, n * sizeof(T)));
    CK(cudaMemset(d, 0, n * sizeof(T)));
    return d;
}
template <class T> static std::vector<T> download(const T* d, size_t n) {
    std::vector<T> v(n);
    CK(cudaMemcpy(v.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}
static double abs_sum(const std::vector<float>& v) {
    double s = 0;
    for (float x : v) s += std::fabs((double)x);
    return s;
}

struct Scene {
    static const int P = 1000000, D = 3, M = 16, W = 1600, H = 1060;
    float tan_x = 0.7f, tan_y = 0.7f * H / W, focal_x = W / 1.4f, focal_y = W / 1.4f;
    float cam[3] = {0.5f, -0.3f, -5.f};
    std::vector<float> view, proj, pos, scale, rot, opacity, sh;
    std::mt19937 rng{11};
    uint32_t state = 12345;
    float quick() {  // uniform in [-1, 1)
        state = state * 1664525u + 1013904223u;
        return (int32_t)state * (1.f / 2147483648.f);
    }
    Scene() : view(16, 0.f), proj(16, 0.f), pos(3 * P), scale(3 * P), rot(4 * P), opacity(P), sh((size_t)3 * M * P) {
        // camera turned a little about y; matrices column by column
        float c = std::cos(0.1f), s = std::sin(0.1f), R[3][3] = {{c, 0, s}, {0, 1, 0}, {-s, 0, c}};
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) view[4 * j + i] = R[i][j];
            view[12 + i] = -(R[i][0] * cam[0] + R[i][1] * cam[1] + R[i][2] * cam[2]);
        }
        view[15] = 1;
        const float zn = 0.01f, zf = 100.f;
        float Pm[4][4] = {{1 / tan_x, 0, 0, 0}, {0, 1 / tan_y, 0, 0}, {0, 0, zf / (zf - zn), -zf * zn / (zf - zn)}, {0, 0, 1, 0}};
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                for (int k = 0; k < 4; k++) proj[4 * j + i] += Pm[i][k] * view[4 * j + k];
        std::normal_distribution<float> gauss(0.f, 1.f);
        for (int i = 0; i < P; i++) {
            bool object = quick() < 0.1f;
            float far = 1.f;
            for (int k = 0; k < 3; k++) pos[3 * i + k] = object ? 1.2f * gauss(rng) : 16.f * quick();
            if (!object) far = 1.f + 0.2f * std::sqrt(pos[3 * i] * pos[3 * i] + pos[3 * i + 1] * pos[3 * i + 1] + pos[3 * i + 2] * pos[3 * i + 2]);
            for (int k = 0; k < 3; k++) scale[3 * i + k] = far * 0.008f * std::exp(0.8f * gauss(rng));
            float q[4], n = 0;
            for (int k = 0; k < 4; k++) q[k] = quick(), n += q[k] * q[k];
            for (int k = 0; k < 4; k++) rot[4 * i + k] = q[k] / std::sqrt(n + 1e-8f);
            opacity[i] = 0.5f + 0.49f * quick();
            for (int k = 0; k < 3 * M; k++) sh[(size_t)3 * M * i + k] = k < 3 ? 1.2f * quick() : 0.15f * quick();
        }
    }
    // camera space position
    void to_view(int i, float t[3]) const {
        for (int r = 0; r < 3; r++) t[r] = view[r] * pos[3 * i] + view[4 + r] * pos[3 * i + 1] + view[8 + r] * pos[3 * i + 2] + view[12 + r];
    }
    // real spherical harmonics up to degree 3 of the direction from the camera to Gaussian i
    void basis(int i, double b[16]) const {
        double x = pos[3 * i] - cam[0], y = pos[3 * i + 1] - cam[1], z = pos[3 * i + 2] - cam[2], n = std::sqrt(x * x + y * y + z * z);
        x /= n, y /= n, z /= n;
        const double pi = 3.14159265358979323846;
        double a1 = std::sqrt(3 / (4 * pi)), a2 = std::sqrt(15 / (4 * pi)), a3 = std::sqrt(35 / (32 * pi)), a4 = std::sqrt(21 / (32 * pi)), a5 = std::sqrt(105 / (4 * pi)), a6 = std::sqrt(7 / (16 * pi));
        b[0] = std::sqrt(1 / (4 * pi));
        b[1] = -a1 * y, b[2] = a1 * z, b[3] = -a1 * x;
        b[4] = a2 * x * y, b[5] = -a2 * y * z, b[6] = a2 / std::sqrt(12.) * (3 * z * z - 1), b[7] = -a2 * x * z, b[8] = a2 / 2 * (x * x - y * y);
        b[9] = -a3 * y * (3 * x * x - y * y), b[10] = a5 * x * y * z, b[11] = -a4 * y * (5 * z * z - 1), b[12] = a6 * z * (5 * z * z - 3);
        b[13] = -a4 * x * (5 * z * z - 1), b[14] = a5 / 2 * z * (x * x - y * y), b[15] = -a3 * x * (x * x - 3 * y * y);
    }
};
