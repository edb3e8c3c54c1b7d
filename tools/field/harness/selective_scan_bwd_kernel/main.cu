// Mamba's selective scan, backward: half, batch 4, inner width 2048, length 2048, 16 states, with z (out_z recomputed), D, bias and softplus.
#include "util.h"
#include "kernel.inc"
#ifndef EXTRA_SMEM
#define EXTRA_SMEM 0
#endif
typedef at::Half half_t;
int main()
{
    const int batch = 4, dim = 2048, len = 2048, states = 16;
    const size_t n = (size_t)batch * dim * len, nb = (size_t)batch * states * len;
    half_t* u = device_uniform<half_t>(n, 1, -1.0f, 1.0f);
    half_t* delta = device_uniform<half_t>(n, 2, -0.5f, 0.5f);
    half_t* z = device_uniform<half_t>(n, 3, -2.0f, 2.0f);
    half_t* B = device_uniform<half_t>(nb, 4, -1.0f, 1.0f);
    half_t* C = device_uniform<half_t>(nb, 5, -1.0f, 1.0f);
    half_t* out = device_uniform<half_t>(n, 8, -1.5f, 1.5f);      // the forward's output: only dz and out_z take it
    half_t* dout = device_uniform<half_t>(n, 9, -1.0f, 1.0f);
    std::vector<float> hA(dim * states), hbias(dim), hD(dim);
    for (int d = 0; d < dim; d++)
    {
        for (int s = 0; s < states; s++) hA[d * states + s] = -(float)(s + 1);
        float dt = expf(logf(0.001f) + hash01(d, 6) * (logf(0.1f) - logf(0.001f)));
        hbias[d] = dt + logf(-expm1f(-dt));     // the inverse of softplus
        hD[d] = 0.5f + hash01(d, 7);
    }
    float *A = device_zero<float>(hA.size()), *bias = device_zero<float>(dim), *D = device_zero<float>(dim);
    CK(cudaMemcpy(A, hA.data(), hA.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(bias, hbias.data(), dim * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(D, hD.data(), dim * 4, cudaMemcpyHostToDevice));
    half_t *out_z = device_zero<half_t>(n), *du = device_zero<half_t>(n), *dz = device_zero<half_t>(n), *ddelta = device_zero<half_t>(n);
    float* x = device_zero<float>((size_t)batch * dim * states * 2);     // the forward's chunk states: one chunk, not read
    float *dA = device_zero<float>(dim * states), *dB = device_zero<float>(nb), *dC = device_zero<float>(nb), *dD = device_zero<float>(dim), *dbias = device_zero<float>(dim);

    SSMParamsBwd p = {};
    p.batch = batch; p.dim = dim; p.seqlen = len; p.dstate = states; p.n_groups = 1; p.n_chunks = 1; p.dim_ngroups_ratio = dim;
    p.is_variable_B = p.is_variable_C = true; p.delta_softplus = true;
    p.A_d_stride = p.dA_d_stride = states; p.A_dstate_stride = p.dA_dstate_stride = 1;
    p.B_batch_stride = p.C_batch_stride = p.B_group_stride = p.C_group_stride = (size_t)states * len;
    p.dB_batch_stride = p.dC_batch_stride = p.dB_group_stride = p.dC_group_stride = (size_t)states * len;
    p.B_dstate_stride = p.C_dstate_stride = p.dB_dstate_stride = p.dC_dstate_stride = len;
    p.u_batch_stride = p.delta_batch_stride = p.z_batch_stride = p.out_batch_stride = p.out_z_batch_stride = (size_t)dim * len;
    p.dout_batch_stride = p.du_batch_stride = p.dz_batch_stride = p.ddelta_batch_stride = (size_t)dim * len;
    p.u_d_stride = p.delta_d_stride = p.z_d_stride = p.out_d_stride = p.out_z_d_stride = len;
    p.dout_d_stride = p.du_d_stride = p.dz_d_stride = p.ddelta_d_stride = len;
    p.A_ptr = A; p.B_ptr = B; p.C_ptr = C; p.D_ptr = D; p.u_ptr = u; p.delta_ptr = delta; p.delta_bias_ptr = bias;
    p.out_ptr = out; p.x_ptr = x; p.z_ptr = z; p.out_z_ptr = out_z;
    p.dout_ptr = dout; p.dA_ptr = dA; p.dB_ptr = dB; p.dC_ptr = dC; p.dD_ptr = dD; p.du_ptr = du; p.dz_ptr = dz; p.ddelta_ptr = ddelta; p.ddelta_bias_ptr = dbias;

    // The library's choice for a length above 1024 that 2048 divides: 128 threads of 16 items.
    using Traits = Selective_Scan_bwd_kernel_traits<128, 16, true, true, true, true, true, half_t, float>;
    constexpr int smem = Traits::kSmemSize + MAX_DSTATE * sizeof(Traits::scan_t) + (Traits::kNThreads + 4 * MAX_DSTATE) * sizeof(float) + EXTRA_SMEM;
    auto kernel = &selective_scan_bwd_kernel<Traits>;
    if (smem >= 48 * 1024) CK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    for (int i = 0; i < 6; i++)
    {
        CK(cudaMemset(dA, 0, dim * states * 4));
        CK(cudaMemset(dB, 0, nb * 4));
        CK(cudaMemset(dC, 0, nb * 4));
        CK(cudaMemset(dD, 0, dim * 4));
        CK(cudaMemset(dbias, 0, dim * 4));
        kernel<<<dim3(batch, dim), Traits::kNThreads, smem>>>(p);
    }
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());

    auto hB = to_host(B, nb), hC = to_host(C, nb);
    bool ok = true;
    for (int q = 5; q < batch * dim && ok; q += 3001)
    {
        int b = q / dim, d = q % dim;
        size_t at = (size_t)q * len;
        auto hu = to_host(u + at, len), hd = to_host(delta + at, len), hz = to_host(z + at, len), hg = to_host(dout + at, len), ho = to_host(du + at, len);
        std::vector<double> g(states, 0.0), a(states, 0.0);
        for (int t = len - 1; t >= 0 && ok; t--)
        {
            double dt = log1p(exp((double)__half2float(hd[t]) + hbias[d])), zt = __half2float(hz[t]);
            double gy = __half2float(hg[t]) * zt / (1 + exp(-zt)), e = hD[d] * gy;
            for (int s = 0; s < states; s++)
            {
                size_t w = ((size_t)b * states + s) * len + t;
                g[s] = gy * __half2float(hC[w]) + a[s] * g[s];
                a[s] = exp(dt * hA[d * states + s]);
                e += g[s] * dt * __half2float(hB[w]);
            }
            if (fabs(__half2float(ho[t]) - e) > 5e-3 + 5e-3 * fabs(e)) { printf("FAIL at %d %d: %g %g\n", q, t, __half2float(ho[t]), e); ok = false; }
        }
        (void)hu;
    }
    if (ok) printf("PASS\n");
    printf("checksum %.4g %.4g %.4g %.4g\n", checksum(du, n), checksum(dz, n), checksum(ddelta, n), checksum(out_z, n));
    printf("checksum %.4g %.4g %.4g %.4g %.4g\n", checksum(dA, (size_t)dim * states), checksum(dB, nb), checksum(dC, nb), checksum(dD, dim), checksum(dbias, dim));
    return !ok;
}
