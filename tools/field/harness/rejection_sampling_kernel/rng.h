// XORWOW as cuRAND's default device generator defines it (subsequence 0, offset 0), for device and host.
#pragma once
struct curandState_t {
    unsigned d, v[5];
};
__host__ __device__ inline void curand_init(unsigned long long seed, unsigned long long, unsigned long long, curandState_t* s) {
    unsigned s0 = (unsigned)seed ^ 0xaad26b49u, s1 = (unsigned)(seed >> 32) ^ 0xf7dcefddu;
    unsigned t0 = 1099087573u * s0, t1 = 2591861531u * s1;
    s->d = 6615241u + t1 + t0;
    s->v[0] = 123456789u + t0;
    s->v[1] = 362436069u ^ t0;
    s->v[2] = 521288629u + t1;
    s->v[3] = 88675123u ^ t1;
    s->v[4] = 5783321u + t0;
}
__host__ __device__ inline unsigned curand(curandState_t* s) {
    unsigned t = s->v[0] ^ (s->v[0] >> 2);
    s->v[0] = s->v[1];
    s->v[1] = s->v[2];
    s->v[2] = s->v[3];
    s->v[3] = s->v[4];
    s->v[4] = (s->v[4] ^ (s->v[4] << 4)) ^ (t ^ (t << 1));
    s->d += 362437u;
    return s->v[4] + s->d;
}
__host__ __device__ inline float curand_uniform(curandState_t* s) {
    return curand(s) * 2.3283064e-10f + (2.3283064e-10f / 2.0f);
}
