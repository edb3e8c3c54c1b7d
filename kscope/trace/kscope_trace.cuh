// kscope_trace.cuh: what each warp of your kernel did, when, by its own clock. Header-only; read by `kscope trace FILE`.
//
// Off unless KSCOPE_TRACE is defined before the include: every macro then expands to nothing, the machine code is that of
// a kernel without it. On, one lane a warp writes records of 16 bytes to a ring of its own in device memory.
// (Not in shared memory: measured on an H200, stores to shared memory beside wgmma cost a GEMM 12 % of its time, these
// 1 to 2 %.)
//
//   #include "kscope_trace.cuh"
//   enum { PRODUCER, CONSUMER };                                   // roles: 0..255
//   enum { SLOT_WAIT, DATA_WAIT, MMA, EPILOGUE };                  // scopes: 0..255
//   __global__ void kernel(...) {
//     KSCOPE_TRACE_WARP(PRODUCER, lane == 0);                      // once a warp and role, where the role begins
//     KSCOPE_BEGIN(EPILOGUE, tile); ... KSCOPE_END(EPILOGUE, tile); // scopes nest; tile: any 32-bit number, kept with it
//     for (...) {                                                  // in a hot loop: read the clock where it counts, and write
//       KSCOPE_STAMP(t0); wait(slot); KSCOPE_STAMP(t1);            // the records where nobody waits for this warp: one span
//       issue_copy(); KSCOPE_STAMP(t2);                            // with a number (KSCOPE_SPAN), or two that follow each
//       KSCOPE_SPANS(SLOT_WAIT, COPY, t0, t1, t2);                 // other in one record (t0 to t1 to t2)
//     }
//     KSCOPE_TRACE_DONE();                                         // once, where the role ends
//   }
//   host:
//     kscope_trace::Session trace(blocks, warps_a_block, /*records a warp*/ 4096, /*every n-th block*/ 1);
//     trace.role(PRODUCER, "producer");  trace.scope(SLOT_WAIT, "slot wait", "wait", "tensor");
//     kernel<<<...>>>(...);
//     trace.dump("kernel.ktrace", "kernel");
//
// A scope has a kind: "wait" (for the unit named next: memory, tensor, role, barrier), "issue" (of work to that unit; cycles,
// if given, is how long one issue keeps the unit busy at full rate, and then `kscope trace` tells covered from exposed
// waiting), "work", "epilogue", or "spin" (time burnt on purpose). What comes before a warp's first scope that is no wait
// is its priming. The translation unit of the kernel includes this header; a Session belongs to it. While one lives,
// launches record, the last one before dump() is what the file holds.
//
// File (little endian): "KSTRACE1", u32 bytes of JSON, u32 number of warps, JSON, then a warp: header of 64 bytes
// {u32 "KSWP", sm, block, warp, role, records written, records kept, 0, u64 globaltimer ns, clock64 at the begin, both at
// the end}, and the records kept, oldest first: u32 {kind << 30 | scope, payload, low half of clock64, the same at the end
// of a span}. Kinds: 0 begin, 1 end, 2 mark, 3 span; with bit 29 two spans: {.. | second scope << 8 | first, the clock at
// the begin, between them, at the end}.
#pragma once
#ifndef KSCOPE_TRACE

#define KSCOPE_TRACE_WARP(role, elected)
#define KSCOPE_BEGIN(scope, payload)
#define KSCOPE_END(scope, payload)
#define KSCOPE_MARK(scope, payload)
#define KSCOPE_STAMP(name)
#define KSCOPE_SPAN(scope, from, to, payload)
#define KSCOPE_SPANS(first, second, from, between, to)
#define KSCOPE_TRACE_DONE()

#else

#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace kscope_trace {

struct Header {  // 64 bytes, as in the file
  uint32_t magic, sm, block, warp, role, written, kept, zero;
  uint64_t ns_begin, clock_begin, ns_end, clock_end;
};
static_assert(sizeof(Header) == 64, "layout of the file");

struct Sink {        // where this module's kernels write
  Header* headers;   // one a warp; null: nothing is recorded
  char* rings;       // of `bytes` each, aligned to their size
  uint32_t bytes;    // a ring, a power of two
  uint32_t warps;    // a block
  uint32_t stride;   // blocks whose number is a multiple of it are recorded
  uint32_t blocks;   // of the grid
};
static __constant__ Sink sink;

__device__ __forceinline__ uint64_t globaltimer() { uint64_t t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory"); return t; }
__device__ __forceinline__ uint32_t sm_id() { uint32_t s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }

__device__ __forceinline__ uint32_t clock_low() { uint32_t t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory"); return t; }

struct Warp {
  Header* header = nullptr;  // null in lanes and blocks that do not record
  uint32_t low = 0, high = 0, base = 0, mask = 0, written = 0;

  __device__ __forceinline__ Warp(uint32_t role, bool elected) {
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    if (!elected || sink.headers == nullptr || block >= sink.blocks || block % sink.stride) return;
    uint64_t nth = uint64_t(block / sink.stride) * sink.warps + thread / 32, ring = reinterpret_cast<uint64_t>(sink.rings) + nth * sink.bytes;
    low = base = uint32_t(ring), high = uint32_t(ring >> 32), mask = sink.bytes - 1;
    header = sink.headers + nth;
    header->sm = sm_id(), header->block = block, header->warp = thread / 32, header->role = role;
    header->ns_begin = globaltimer(), header->clock_begin = clock64();
  }
  // As few instructions as can be, and no branch: rings are aligned to their size, so the next place is a sum and a mask.
  __device__ __forceinline__ void write(uint32_t tag, uint32_t payload, uint32_t time, uint32_t end) {
    asm volatile("{ .reg .pred p; .reg .u64 a; setp.ne.u32 p, %0, 0; mov.b64 a, {%1, %2}; @p st.global.v4.u32 [a], {%3, %4, %5, %6}; }"
                 ::"r"(mask), "r"(low), "r"(high), "r"(tag), "r"(payload), "r"(time), "r"(end) : "memory");
    low = base | ((low + 16) & mask), written++;
  }
  __device__ __forceinline__ void done() {
    if (header == nullptr) return;
    header->clock_end = clock64(), header->ns_end = globaltimer();
    header->written = written, header->magic = 0x5057534bu;  // "KSWP"
  }
};

class Session {
 public:
  Session(uint32_t blocks, uint32_t warps, uint32_t records = 4096, uint32_t stride = 1) {
    while (records & (records - 1)) records += records & (0u - records);
    rings_ = (blocks + stride - 1) / stride * uint64_t(warps);
    sink_ = Sink{nullptr, nullptr, 16 * records, warps, stride, blocks};
    check(cudaMalloc(reinterpret_cast<void**>(&sink_.headers), rings_ * sizeof(Header)), "cudaMalloc");
    check(cudaMemset(sink_.headers, 0, rings_ * sizeof(Header)), "cudaMemset");
    check(cudaMalloc(&memory_, (rings_ + 1) * sink_.bytes), "cudaMalloc");
    uint64_t at = (reinterpret_cast<uint64_t>(memory_) + sink_.bytes - 1) / sink_.bytes * sink_.bytes;
    sink_.rings = reinterpret_cast<char*>(at);
    check(cudaMemcpyToSymbol(sink, &sink_, sizeof sink_), "cudaMemcpyToSymbol");
  }
  ~Session() {
    Sink off = {};
    cudaMemcpyToSymbol(sink, &off, sizeof off);
    cudaFree(sink_.headers);
    cudaFree(memory_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void role(uint32_t id, const char* name) { roles_ += item(roles_, id) + ",\"name\":" + quoted(name) + "}"; }
  void scope(uint32_t id, const char* name, const char* kind, const char* on = "", uint32_t cycles = 0) {
    scopes_ += item(scopes_, id) + ",\"name\":" + quoted(name) + ",\"kind\":" + quoted(kind) + ",\"on\":" + quoted(on) +
        ",\"cycles\":" + std::to_string(cycles) + "}";
  }
  void note(const char* key, const std::string& value) { notes_ += std::string(notes_.empty() ? "" : ",") + quoted(key) + ":" + quoted(value.c_str()); }

  // Waits for the device, writes the file, empties the rings. Blocks of stride * keep_every only, to keep files small.
  void dump(const char* path, const char* kernel, uint32_t keep_every = 1) {
    check(cudaDeviceSynchronize(), "kernel");
    std::vector<Header> headers(rings_);
    check(cudaMemcpy(headers.data(), sink_.headers, rings_ * sizeof(Header), cudaMemcpyDeviceToHost), "cudaMemcpy");
    check(cudaMemset(sink_.headers, 0, rings_ * sizeof(Header)), "cudaMemset");
    cudaDeviceProp device;
    int id = 0;
    check(cudaGetDevice(&id), "cudaGetDevice");
    check(cudaGetDeviceProperties(&device, id), "cudaGetDeviceProperties");
    std::vector<char> body, ring(sink_.bytes);
    uint32_t warps = 0, records = sink_.bytes / 16;
    for (uint64_t r = 0; r < rings_; r++) {
      Header h = headers[r];
      if (h.magic != 0x5057534bu || h.block / sink_.stride % keep_every) continue;
      check(cudaMemcpy(ring.data(), sink_.rings + r * sink_.bytes, sink_.bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
      h.kept = h.written < records ? h.written : records;
      append(body, &h, sizeof h);
      for (uint32_t i = h.written - h.kept; i != h.written; i++) append(body, ring.data() + 16 * (i % records), 16);
      warps++;
    }
    std::string json = "{\"kernel\":" + quoted(kernel) + ",\"device\":" + quoted(device.name) + ",\"cc\":\"" +
        std::to_string(device.major) + "." + std::to_string(device.minor) + "\",\"sms\":" + std::to_string(device.multiProcessorCount) +
        ",\"blocks\":" + std::to_string(sink_.blocks) + ",\"warps_per_block\":" + std::to_string(sink_.warps) +
        ",\"stride\":" + std::to_string(sink_.stride * keep_every) + ",\"roles\":[" + roles_ + "],\"scopes\":[" + scopes_ +
        "],\"notes\":{" + notes_ + "}}";
    uint32_t sizes[2] = {uint32_t(json.size()), warps};
    FILE* f = std::fopen(path, "wb");
    if (!f) { std::fprintf(stderr, "kscope_trace: cannot write %s\n", path); std::exit(1); }
    std::fwrite("KSTRACE1", 1, 8, f);
    std::fwrite(sizes, 1, 8, f);
    std::fwrite(json.data(), 1, json.size(), f);
    std::fwrite(body.data(), 1, body.size(), f);
    if (std::fclose(f)) { std::fprintf(stderr, "kscope_trace: cannot write %s\n", path); std::exit(1); }
  }

 private:
  static void append(std::vector<char>& to, const void* from, size_t n) { to.insert(to.end(), static_cast<const char*>(from), static_cast<const char*>(from) + n); }
  static std::string item(const std::string& list, uint32_t id) { return std::string(list.empty() ? "" : ",") + "{\"id\":" + std::to_string(id); }
  static std::string quoted(const char* text) {
    std::string out = "\"";
    for (; *text; text++) {
      unsigned char c = static_cast<unsigned char>(*text);
      if (c == '"' || c == '\\') out += '\\', out += char(c);
      else if (c < 32) out += ' ';
      else out += char(c);
    }
    return out + "\"";
  }
  static void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess) { std::fprintf(stderr, "kscope_trace: %s: %s\n", what, cudaGetErrorString(e)); std::exit(1); }
  }
  Sink sink_{};
  void* memory_ = nullptr;
  uint64_t rings_ = 0;
  std::string roles_, scopes_, notes_;
};

}  // namespace kscope_trace

#define KSCOPE_TRACE_WARP(role, elected) kscope_trace::Warp kscope_warp_(role, elected)
#define KSCOPE_BEGIN(scope, payload) kscope_warp_.write(uint32_t(scope), payload, kscope_trace::clock_low(), 0)
#define KSCOPE_END(scope, payload) kscope_warp_.write(1u << 30 | uint32_t(scope), payload, kscope_trace::clock_low(), 0)
#define KSCOPE_MARK(scope, payload) kscope_warp_.write(2u << 30 | uint32_t(scope), payload, kscope_trace::clock_low(), 0)
#define KSCOPE_STAMP(name) uint32_t name = kscope_trace::clock_low()
#define KSCOPE_SPAN(scope, from, to, payload) kscope_warp_.write(3u << 30 | uint32_t(scope), payload, from, to)
#define KSCOPE_SPANS(first, second, from, between, to) \
  kscope_warp_.write(3u << 30 | 1u << 29 | uint32_t(second) << 8 | uint32_t(first), from, between, to)
#define KSCOPE_TRACE_DONE() kscope_warp_.done()

#endif
