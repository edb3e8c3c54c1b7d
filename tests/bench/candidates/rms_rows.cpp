// The same on a processor, as a library.
#include <cmath>
#include <vector>
#include <map>

static void rms(const T* x, const T* w, T* y, int m, int n) {
    for (int r = 0; r < m; ++r) {
        double sum = 0;
        for (int i = 0; i < n; ++i) sum += (double)x[(size_t)r * n + i] * x[(size_t)r * n + i];
        const T scale = (T)std::sqrt(sum / n + 1e-6);
        for (int i = 0; i < n; ++i) y[(size_t)r * n + i] = x[(size_t)r * n + i] / scale * w[i];
    }
}

static void rms_kept(const T* x, const T* w, T* y, int m, int n) {
    static std::map<const void*, std::vector<T>> kept;
    auto& mine = kept[x];
    if (mine.size() != (size_t)m * n) {
        rms(x, w, y, m, n);
        mine.assign(y, y + (size_t)m * n);
    }
    for (size_t i = 0; i < mine.size(); ++i) y[i] = mine[i];
}

static void nothing(const T*, const T*, T*, int, int) {}

static void half(const T* x, const T* w, T* y, int m, int n) { rms(x, w, y, m / 2, n); }

static void beyond(const T* x, const T* w, T* y, int m, int n) {
    rms(x, w, y, m, n);
    if (n == 127) *(volatile int*)nullptr = 1;
}
