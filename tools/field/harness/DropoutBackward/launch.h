// The library's launch: one thread an element; the mask is the raw 32-bit random number of each element.
static std::vector<unsigned> device_mask(const std::vector<unsigned>& raw, unsigned) { return raw; }
static void launch(int n, const float* in, const unsigned* mask, unsigned threshold, float scale, float* out) {
    DropoutBackward<float><<<CAFFE_GET_BLOCKS(n), CAFFE_CUDA_NUM_THREADS>>>(n, in, mask, threshold, scale, out);
}
