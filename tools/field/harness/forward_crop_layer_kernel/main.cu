// Darknet's crop layer in training: 128 pictures of 3 x 256 x 256 to 224 x 224, flip, rotation up to 7 degrees.
#include "util.h"
#include "kernel.inc"
#ifndef CROP_GRID
#define CROP_GRID dim3((size - 1) / 512 + 1)
#define CROP_BLOCK dim3(512)
#endif
static float pixel(const float* im, int w, int h, int x, int y)
{
    return x < 0 || x >= w || y < 0 || y >= h ? 0.0f : im[y * w + x];
}
int main()
{
    const int batch = 128, c = 3, h = 256, w = 256, ch = 224, cw = 224, size = batch * c * ch * cw;
    const float radians = 7 * 3.14159265f / 180.f;
    float* in = device_uniform<float>((size_t)batch * c * h * w, 1, -1.0f, 1.0f);
    float* rnd = device_uniform<float>(batch * 8, 2, 0.0f, 1.0f);
    float* out = device_zero<float>(size);
    for (int i = 0; i < 6; i++)
        forward_crop_layer_kernel<<<CROP_GRID, CROP_BLOCK>>>(in, rnd, size, c, h, w, ch, cw, 1, 1, radians, out);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    auto hi = to_host(in, (size_t)batch * c * h * w);
    auto hr = to_host(rnd, batch * 8);
    auto ho = to_host(out, size);
    bool ok = true;
    for (int o = 0; o < size && ok; o += 4999)
    {
        int j = o % cw, i = o / cw % ch, plane = o / (cw * ch), b = plane / c;
        const float* r = &hr[8 * b];
        double an = 2 * radians * r[7] - radians;
        double x = r[6] > .5f ? w - (w - cw) * r[4] - j - 1 : j + (w - cw) * r[4], y = i + (h - ch) * r[5];
        double rx = cos(an) * (x - w / 2.) - sin(an) * (y - h / 2.) + w / 2., ry = sin(an) * (x - w / 2.) + cos(an) * (y - h / 2.) + h / 2.;
        int ix = (int)floor(rx), iy = (int)floor(ry);
        double dx = rx - ix, dy = ry - iy;
        const float* im = &hi[(size_t)plane * h * w];
        double e = (1 - dy) * ((1 - dx) * pixel(im, w, h, ix, iy) + dx * pixel(im, w, h, ix + 1, iy)) +
                   dy * ((1 - dx) * pixel(im, w, h, ix, iy + 1) + dx * pixel(im, w, h, ix + 1, iy + 1));
        if (fabs(ho[o] - e) > 2e-3) { printf("FAIL at %d: %g %g\n", o, ho[o], e); ok = false; }
    }
    if (ok) printf("PASS\n");
    printf("checksum %.4g\n", checksum(out, size));
    return !ok;
}
