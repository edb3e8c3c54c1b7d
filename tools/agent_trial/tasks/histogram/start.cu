__global__ void count_global(const float* __restrict__ in, int* __restrict__ bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[(int)(in[i] * 8) & 3], (int)(in[i] * 4));
}

void histogram(const float* x, int* y, int n, cudaStream_t stream) {
  cudaMemsetAsync(y, 0, 4 * sizeof(int), stream);
  count_global<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
