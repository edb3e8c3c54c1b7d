// Stands in (ours) for the library's header of this name: only the block reduction of CUB, which builds much faster.
#pragma once
#include <cub/block/block_reduce.cuh>
#include <cuda/std/functional>
namespace bnb_cub = cub;
#define BNB_MAX_OP ::cuda::maximum<>{}
