// The library's launch: one thread an output element, 128 threads a block.
static void launch(const float* in, uint32_t B, uint32_t D, uint32_t deg, uint32_t C, float* out) {
    const uint32_t threads = 128;
    kernel_freq<<<(B * C + threads - 1) / threads, threads>>>(in, B, D, deg, C, out);
}
