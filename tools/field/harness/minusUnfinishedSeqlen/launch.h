// The launch: the library's own choice.
#pragma once
static void launch(int* lengths, const bool* finished, int tokens)
{
    const int threads = tokens < 256 ? tokens : 256;
    const int blocks  = (tokens + 255) / 256;
    minusUnfinishedSeqlen<<<blocks, threads>>>(lengths, finished, tokens);
}
