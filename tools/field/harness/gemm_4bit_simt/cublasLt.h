// Stub (ours): the type names that the library's portability header gives aliases to; nothing of cuBLAS is used.
#pragma once
struct cublasLtStub;
using cublasLtHandle_t = cublasLtStub*;
using cublasLtMatmulDesc_t = cublasLtStub*;
using cublasLtMatrixLayout_t = cublasLtStub*;
using cublasLtMatmulPreference_t = cublasLtStub*;
using cublasLtMatmulHeuristicResult_t = cublasLtStub*;
using cublasStatus_t = int;
