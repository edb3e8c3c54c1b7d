__global__ void __launch_bounds__(256) autocorr_lag(const float4* __restrict__ x, float* out) {
  const float4* p = x + (size_t)blockIdx.x * 4096;
  int lag = (blockIdx.y + 1) * 64;
  float a = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < 4096; i += 256) {
    float4 u = p[i], v = p[i + lag];
    a += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
  }
  for (int o = 16; o; o >>= 1) a += __shfl_xor_sync(~0u, a, o);
  __shared__ float part[8];
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = a;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; w++) a += part[w];
    out[blockIdx.y * gridDim.x + blockIdx.x] = a;
  }
}

void autocorr(const float* x, float* y, int pieces, cudaStream_t stream) {
  autocorr_lag<<<dim3(pieces, 8), 256, 0, stream>>>((const float4*)x, y);
}
