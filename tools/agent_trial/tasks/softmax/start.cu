__device__ __forceinline__ float warp_max(float v) {
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
__device__ __forceinline__ float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__device__ __forceinline__ float block_max(float v, float* w) {
  v = warp_max(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) w[threadIdx.x / 32] = v;
  __syncthreads();
  float s = w[0];
  for (int i = 1; i < blockDim.x / 32; i++) s = fmaxf(s, w[i]);
  return s;
}
__device__ __forceinline__ float block_sum(float v, float* w) {
  v = warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) w[threadIdx.x / 32] = v;
  __syncthreads();
  float s = 0;
  for (int i = 0; i < blockDim.x / 32; i++) s += w[i];
  return s;
}

__global__ void softmax_threepass(const float4* __restrict__ x, float4* __restrict__ y, int c4) {
  __shared__ float w[32];
  const float4* r = x + (size_t)blockIdx.x * c4;
  float m = -1e30f, s = 0;
  for (int i = threadIdx.x; i < c4; i += blockDim.x) {
    float4 v = r[i];
    m = fmaxf(m, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  }
  m = block_max(m, w);
  for (int i = threadIdx.x; i < c4; i += blockDim.x) {
    float4 v = r[i];
    s += __expf(v.x - m) + __expf(v.y - m) + __expf(v.z - m) + __expf(v.w - m);
  }
  s = 1 / block_sum(s, w);
  for (int i = threadIdx.x; i < c4; i += blockDim.x) {
    float4 v = r[i];
    y[(size_t)blockIdx.x * c4 + i] =
        make_float4(__expf(v.x - m) * s, __expf(v.y - m) * s, __expf(v.z - m) * s, __expf(v.w - m) * s);
  }
}

void softmax(const float* x, float* y, int m, int n, cudaStream_t stream) {
  softmax_threepass<<<m, 256, 0, stream>>>((const float4*)x, (float4*)y, n / 4);
}
