// Stand-in (ours).
#pragma once
#define C10_CUDA_CHECK(e) CK(e)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() CK(cudaGetLastError())
