// The launch: the library's own choice.
#pragma once
static void launch(ConvParamsBase& p)
{
    using Traits = Causal_conv1d_update_kernel_traits<64, 4, at::BFloat16, float>;
    causal_conv1d_update_kernel<Traits, false><<<dim3(p.batch, (p.dim + 63) / 64), 64>>>(p);
}
