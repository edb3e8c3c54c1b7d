__global__ void gather_divmod(const float* __restrict__ in, float* __restrict__ out, int n, int c, int h, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0;
  for (int k = 0; k < 8; k++) {
    int j = i + k * 977;
    int x = j % w, y = (j / w) % h, z = (j / (w * h)) % c;
    s += in[(z * h + y) * w + x];
  }
  out[i] = s;
}

void gather(const float* x, float* y, int c, int h, int w, cudaStream_t stream) {
  int n = c * h * w;
  gather_divmod<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, c, h, w);
}
