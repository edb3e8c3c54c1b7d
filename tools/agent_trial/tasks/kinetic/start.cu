struct Particle {
  float x, y, z, vx, vy, vz, mass, charge, ax, ay, az, id;
};

__global__ void kinetic_aos(const Particle* __restrict__ p, float* __restrict__ e, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float vx = p[i].vx, vy = p[i].vy, vz = p[i].vz;
  e[i] = 0.5f * p[i].mass * (vx * vx + vy * vy + vz * vz);
}

void kinetic(const float* x, float* y, int n, cudaStream_t stream) {
  kinetic_aos<<<(n + 255) / 256, 256, 0, stream>>>((const Particle*)x, y, n);
}
