// The library's launch: one thread a pixel (it walks all channels).
static void launch(const float* bottom, const float* top, const float* scale, const float* top_diff, int num, int channels, int height,
                   int width, int size, float neg_beta, float ratio, float* bottom_diff) {
    const int n = num * height * width;
    LRNComputeDiff<float><<<CAFFE_GET_BLOCKS(n), CAFFE_CUDA_NUM_THREADS>>>(n, bottom, top, scale, top_diff, num, channels, height, width,
                                                                          size, neg_beta, ratio, bottom_diff);
}
