// Mamba's selective scan, forward: half, batch 8, inner width 4096, length 2048, 16 states, with z, D, bias and softplus.
#include "util.h"
#include "kernel.inc"
#ifndef ROWS
#define ROWS 1
#endif
typedef at::Half half_t;
int main()
{
    const int batch = 8, dim = 4096, len = 2048, states = 16;
    const size_t n = (size_t)batch * dim * len, nb = (size_t)batch * states * len;
    half_t* u = device_uniform<half_t>(n, 1, -1.0f, 1.0f);
    half_t* delta = device_uniform<half_t>(n, 2, -0.5f, 0.5f);
    half_t* z = device_uniform<half_t>(n, 3, -2.0f, 2.0f);
    half_t* B = device_uniform<half_t>(nb, 4, -1.0f, 1.0f);
    half_t* C = device_uniform<half_t>(nb, 5, -1.0f, 1.0f);
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
    half_t *out = device_zero<half_t>(n), *out_z = device_zero<half_t>(n);
    float* x = device_zero<float>((size_t)batch * dim * states * 2);

    SSMParamsBase p = {};
    p.batch = batch; p.dim = dim; p.seqlen = len; p.dstate = states; p.n_groups = 1; p.n_chunks = 1; p.dim_ngroups_ratio = dim;
    p.is_variable_B = p.is_variable_C = true; p.delta_softplus = true;
    p.A_d_stride = states; p.A_dstate_stride = 1;
    p.B_batch_stride = p.C_batch_stride = p.B_group_stride = p.C_group_stride = (size_t)states * len;
    p.B_dstate_stride = p.C_dstate_stride = len;
    p.u_batch_stride = p.delta_batch_stride = p.z_batch_stride = p.out_batch_stride = p.out_z_batch_stride = (size_t)dim * len;
    p.u_d_stride = p.delta_d_stride = p.z_d_stride = p.out_d_stride = p.out_z_d_stride = len;
    p.A_ptr = A; p.B_ptr = B; p.C_ptr = C; p.D_ptr = D; p.u_ptr = u; p.delta_ptr = delta; p.delta_bias_ptr = bias;
    p.out_ptr = out; p.x_ptr = x; p.z_ptr = z; p.out_z_ptr = out_z;

    // The library's choice for a length above 1024 that 2048 divides: 128 threads of 16 items.
    using Traits = Selective_Scan_fwd_kernel_traits<128, 16, ROWS, true, true, true, true, half_t, float>;
    constexpr int smem = Traits::kSmemSize + ROWS * MAX_DSTATE * sizeof(Traits::scan_t);
    auto kernel = &selective_scan_fwd_kernel<Traits>;
    if (smem >= 48 * 1024) CK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    for (int i = 0; i < 6; i++)
        kernel<<<dim3(batch, dim / ROWS), Traits::kNThreads, smem>>>(p);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());

    auto hB = to_host(B, nb), hC = to_host(C, nb);
    bool ok = true;
    for (int q = 5; q < batch * dim && ok; q += 3001)
    {
        int b = q / dim, d = q % dim;
        auto hu = to_host(u + (size_t)q * len, len), hd = to_host(delta + (size_t)q * len, len);
        auto hz = to_host(z + (size_t)q * len, len), ho = to_host(out_z + (size_t)q * len, len);
        std::vector<double> h(states, 0.0);
        for (int t = 0; t < len && ok; t++)
        {
            double dt = log1p(exp((double)__half2float(hd[t]) + hbias[d])), ut = __half2float(hu[t]), y = hD[d] * ut, zt = __half2float(hz[t]);
            for (int s = 0; s < states; s++)
            {
                size_t at = ((size_t)b * states + s) * len + t;
                h[s] = exp(dt * hA[d * states + s]) * h[s] + dt * ut * __half2float(hB[at]);
                y += h[s] * __half2float(hC[at]);
            }
            y *= zt / (1 + exp(-zt));
            if (fabs(__half2float(ho[t]) - y) > 5e-3 + 5e-3 * fabs(y)) { printf("FAIL at %d %d: %g %g\n", q, t, __half2float(ho[t]), y); ok = false; }
        }
    }
    if (ok) printf("PASS\n");
    printf("checksum %.4g %.4g %.4g\n", checksum(out, n), checksum(out_z, n), checksum(x, (size_t)batch * dim * states * 2));
    return !ok;
}
