// The library's launch: one thread a ray, 128 threads a block.
static void launch(const float* o, const float* d, const uint8_t* grid, float bound, float dt_gamma, uint32_t max_steps, uint32_t N,
                   uint32_t C, uint32_t H, uint32_t M, const float* nears, const float* fars, float* xyzs, float* dirs, float* deltas,
                   int* rays, int* counter, const float* noises) {
    const uint32_t threads = 128;
    kernel_march_rays_train<float><<<(N + threads - 1) / threads, threads>>>(o, d, grid, bound, dt_gamma, max_steps, N, C, H, M, nears, fars,
                                                                           xyzs, dirs, deltas, rays, counter, noises);
}
