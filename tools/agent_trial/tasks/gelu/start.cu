__global__ void gelu_eight(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
  for (int k = 0; k < 8; k++) x = 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  out[i] = x;
}

void gelu(const float* x, float* y, int n, cudaStream_t stream) {
  gelu_eight<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
