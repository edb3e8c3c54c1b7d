// A minimal stand-in for the parts of glm that the kernel uses: 4-byte aligned vectors and column-major 3x3 matrices.
#pragma once
#include <cuda_runtime.h>
#include <math.h>
#define STUB_FN __host__ __device__ __forceinline__
namespace glm {
struct vec3 {
    float x, y, z;
    vec3() = default;
    STUB_FN vec3(float a, float b, float c) : x(a), y(b), z(c) {}
    STUB_FN float& operator[](int i) { return i == 0 ? x : i == 1 ? y : z; }
    STUB_FN const float& operator[](int i) const { return i == 0 ? x : i == 1 ? y : z; }
    STUB_FN vec3& operator+=(const vec3& o) { x += o.x; y += o.y; z += o.z; return *this; }
    STUB_FN vec3& operator+=(float s) { x += s; y += s; z += s; return *this; }
    STUB_FN vec3& operator*=(float s) { x *= s; y *= s; z *= s; return *this; }
};
struct vec4 {
    float x, y, z, w;
};
STUB_FN vec3 operator+(const vec3& a, const vec3& b) { return vec3(a.x + b.x, a.y + b.y, a.z + b.z); }
STUB_FN vec3 operator-(const vec3& a, const vec3& b) { return vec3(a.x - b.x, a.y - b.y, a.z - b.z); }
STUB_FN vec3 operator*(float s, const vec3& v) { return vec3(s * v.x, s * v.y, s * v.z); }
STUB_FN vec3 operator*(const vec3& v, float s) { return vec3(v.x * s, v.y * s, v.z * s); }
STUB_FN vec3 operator/(const vec3& v, float s) { return vec3(v.x / s, v.y / s, v.z / s); }
STUB_FN float dot(const vec3& a, const vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
STUB_FN float length(const vec3& v) { return sqrtf(dot(v, v)); }
STUB_FN vec3 max(const vec3& v, float s) { return vec3(fmaxf(v.x, s), fmaxf(v.y, s), fmaxf(v.z, s)); }
struct mat3 {
    vec3 c0, c1, c2;
    mat3() = default;
    STUB_FN explicit mat3(float s) : c0(s, 0.f, 0.f), c1(0.f, s, 0.f), c2(0.f, 0.f, s) {}
    STUB_FN mat3(float a, float b, float c, float d, float e, float f, float g, float h, float i) : c0(a, b, c), c1(d, e, f), c2(g, h, i) {}
    STUB_FN vec3& operator[](int i) { return i == 0 ? c0 : i == 1 ? c1 : c2; }
    STUB_FN const vec3& operator[](int i) const { return i == 0 ? c0 : i == 1 ? c1 : c2; }
};
STUB_FN vec3 operator*(const mat3& m, const vec3& v) { return m.c0 * v.x + m.c1 * v.y + m.c2 * v.z; }
STUB_FN mat3 operator*(const mat3& a, const mat3& b) {
    mat3 r;
    r.c0 = a * b.c0;
    r.c1 = a * b.c1;
    r.c2 = a * b.c2;
    return r;
}
STUB_FN mat3 operator*(float s, const mat3& m) {
    mat3 r;
    r.c0 = s * m.c0;
    r.c1 = s * m.c1;
    r.c2 = s * m.c2;
    return r;
}
STUB_FN mat3 transpose(const mat3& m) {
    return mat3(m.c0.x, m.c1.x, m.c2.x, m.c0.y, m.c1.y, m.c2.y, m.c0.z, m.c1.z, m.c2.z);
}
}  // namespace glm
