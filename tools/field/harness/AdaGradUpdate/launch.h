// The library's launch: one thread a parameter.
static void launch(int n, float* g, float* h, float delta, float rate) {
    AdaGradUpdate<float><<<CAFFE_GET_BLOCKS(n), CAFFE_CUDA_NUM_THREADS>>>(n, g, h, delta, rate);
}
