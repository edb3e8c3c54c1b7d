// 128 x 128 tile, 8 x 8 results a thread, 4 bytes an access.
__global__ void __launch_bounds__(256, 2) gemm_reg2d(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int n) {
  __shared__ float a[128][8], b[8][128];
  int t = threadIdx.x, col = t % 16 * 8, row = t / 16 * 8;
  const float* Ab = A + (size_t)blockIdx.y * 128 * n;
  const float* Bb = B + blockIdx.x * 128;
  float sum[8][8] = {};
  for (int k0 = 0; k0 < n; k0 += 8) {
#pragma unroll
    for (int e = t; e < 1024; e += 256) {
      a[e / 8][e % 8] = Ab[(size_t)(e / 8) * n + k0 + e % 8];
      b[e / 128][e % 128] = Bb[(size_t)(k0 + e / 128) * n + e % 128];
    }
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < 8; k++) {
      float x[8], y[8];
#pragma unroll
      for (int i = 0; i < 8; i++) x[i] = a[row + i][k], y[i] = b[k][col + i];
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) C[(size_t)(blockIdx.y * 128 + row + i) * n + blockIdx.x * 128 + col + j] = sum[i][j];
}

void gemm_third(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  gemm_reg2d<<<dim3(n / 128, n / 128), 256, 0, stream>>>(a, b, c, n);
}
