// As the library's host code launches it with a threshold: a block of 1024 threads a row.
#pragma once
static void launch(half* A, int8_t* out, float* rowStats, float threshold, int rows, int cols) {
    kInt8VectorQuant<half, 1024, 1><<<rows, 1024>>>(A, out, rowStats, threshold, rows, cols);
}
