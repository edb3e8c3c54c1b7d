// Runs rejection_sampling_kernel of pytorch_cluster alone: node2vec walks (p = 0.5, q = 2) of length 20 from every node of a power-law graph
// of the size of ogbn-arxiv (169343 nodes, about 2.3M directed edges, sorted rows).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "rng.h"
#include "kernel.inc"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

template <class T> static T* upload(const std::vector<T>& v) {
    T* d;
    CK(cudaMalloc(&d, v.size() * sizeof(T)));
    CK(cudaMemcpy(d, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return d;
}

int main() {
    const int64_t N = 169343, length = 20;
    const double p = 0.5, q = 2.0;
    const unsigned seed = 12345;
    std::mt19937 rng(5);
    std::uniform_real_distribution<double> uni(0, 1);

    // Stubs with power-law degrees; 60 % are joined inside communities of 256 nodes, the rest anywhere.
    std::vector<std::vector<int>> pools(N / 256 + 2);
    for (int i = 0; i < N; i++) {
        int degree = std::min(1000, (int)(5.0 * std::pow(1.0 - uni(rng), -1 / 1.5)));
        for (int k = 0; k < degree; k++) pools[uni(rng) < 0.6 ? i / 256 : (int)pools.size() - 1].push_back(i);
    }
    std::vector<int64_t> edges;
    for (auto& pool : pools) {
        std::shuffle(pool.begin(), pool.end(), rng);
        for (size_t k = 0; k + 1 < pool.size(); k += 2)
            if (pool[k] != pool[k + 1]) {
                edges.push_back((int64_t)pool[k] * N + pool[k + 1]);
                edges.push_back((int64_t)pool[k + 1] * N + pool[k]);
            }
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::vector<int64_t> rowptr(N + 1, 0), col(edges.size()), start(N);
    for (size_t k = 0; k < edges.size(); k++) rowptr[edges[k] / N + 1]++, col[k] = edges[k] % N;
    for (int64_t i = 0; i < N; i++) rowptr[i + 1] += rowptr[i], start[i] = i;
    std::shuffle(start.begin(), start.end(), rng);

    int64_t *d_rowptr = upload(rowptr), *d_col = upload(col), *d_start = upload(start), *d_nodes, *d_edges;
    CK(cudaMalloc(&d_nodes, (length + 1) * N * 8));
    CK(cudaMalloc(&d_edges, length * N * 8));
    for (int it = 0; it < 6; it++) {
        rejection_sampling_kernel<<<(N + 1023) / 1024, 1024>>>(seed, d_rowptr, d_col, d_start, d_nodes, d_edges, length, N, p, q);
        CK(cudaGetLastError());
        CK(cudaDeviceSynchronize());
    }
    std::vector<int64_t> nodes((length + 1) * N), taken(length * N);
    CK(cudaMemcpy(nodes.data(), d_nodes, nodes.size() * 8, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(taken.data(), d_edges, taken.size() * 8, cudaMemcpyDeviceToHost));

    // Reference of some walks; rejected draws go on from the row of the rejected node, as in the kernel.
    const double top = std::max(std::max(1 / p, 1.0), 1 / q), p0 = 1 / p / top, p1 = 1 / top, p2 = 1 / q / top;
    int bad = 0;
    for (int64_t w = 0; w < N; w += 211) {
        curandState_t state;
        curand_init(seed, 0, 0, &state);
        int64_t t = start[w], v = t, e = -1, x;
        int64_t lo = rowptr[t], hi = rowptr[t + 1];
        if (hi > lo) e = lo + curand(&state) % (hi - lo), v = col[e];
        bool ok = nodes[w] == t && nodes[N + w] == v && taken[w] == e;
        for (int64_t l = 1; l < length; l++) {
            lo = rowptr[v], hi = rowptr[v + 1];
            if (lo == hi) e = -1, x = v;
            else if (hi - lo == 1) e = lo, x = col[e];
            else
                for (;;) {
                    e = lo + curand(&state) % (hi - lo), x = col[e];
                    double r = curand_uniform(&state);
                    if (x == t && r < p0) break;
                    lo = rowptr[x], hi = rowptr[x + 1];
                    bool near = std::binary_search(col.begin() + lo, col.begin() + hi, t);
                    if ((near && r < p1) || r < p2) break;
                }
            ok = ok && nodes[(l + 1) * N + w] == x && taken[l * N + w] == e;
            t = v, v = x;
        }
        bad += !ok;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < nodes.size(); i++) sum += (uint64_t)nodes[i] * (i % 1009 + 1);
    for (size_t i = 0; i < taken.size(); i++) sum += (uint64_t)taken[i] * (i % 1013 + 1);
    printf("edges %zu checksum %016llx\n", col.size(), (unsigned long long)sum);
    if (bad) printf("FAIL %d walks differ\n", bad);
    else printf("PASS\n");
    return bad ? 1 : 0;
}
