// The harness's random numbers: the counter-based generator Philox 4x32-10, four per counter value (our own code).
#pragma once
static __device__ __forceinline__ float4 four_uniforms(unsigned i) {
    uint4 c = make_uint4(i, 0, 0, 0);
    unsigned k0 = 20240607u, k1 = 1u;
#pragma unroll
    for (int r = 0; r < 10; r++) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    const float s = 1.0f / 16777216.0f;   // 24 bits: exact in float
    return make_float4((c.x >> 8) * s, (c.y >> 8) * s, (c.z >> 8) * s, (c.w >> 8) * s);
}
