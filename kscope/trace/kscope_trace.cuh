// kscope_trace.cuh: what each warp of your kernel did, when, by its own clock. Header-only; read by `kscope trace FILE`.
//
// Off unless KSCOPE_TRACE is defined before the include: every macro then expands to nothing, the machine code is that of
// a kernel without it. On, one lane a warp writes records of 8 bytes {tag, clock} to a ring of its own in device memory
// (shared memory is what a pipelined kernel has least of; the store is not waited for).
//
//   #include "kscope_trace.cuh"
//   enum { PRODUCER, CONSUMER };                                   // roles: 0..255
//   enum { SLOT_WAIT, DATA_WAIT, MMA_WAIT, EPILOGUE };             // scopes: 0..255
//   __global__ void kernel(...) {
//     KSCOPE_TRACE_WARP(PRODUCER, lane == 0);                      // once a warp and role, where the role begins
//     for (...) {
//       KSCOPE_BEGIN(SLOT_WAIT, k); wait(slot); KSCOPE_END(SLOT_WAIT, k);   // k: any number below 2^22, kept with the record
//       issue_copy();                                               // KSCOPE_NEXT(COPY, k) ends the innermost scope and begins COPY:
//                                                                   // one record where one scope follows on another
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
// is its priming. Scopes of a warp nest. The translation unit of the kernel includes this header; a Session belongs to it.
//
// File (little endian): "KSTRACE1", u32 bytes of JSON, u32 number of warps, JSON, then a warp: header of 64 bytes
// {u32 "KSWP", sm, block, warp, role, records written, records kept, 0, u64 globaltimer ns, clock64 at the begin, both at
// the end}, and the records kept, oldest first: {u32 kind << 30 | scope << 22 | payload, u32 low half of clock64}. Kinds: 0 begin,
// 1 end, 2 mark, 3 next.
#pragma once
#ifndef KSCOPE_TRACE

#define KSCOPE_TRACE_WARP(role, elected)
#define KSCOPE_BEGIN(scope, payload)
#define KSCOPE_END(scope, payload)
#define KSCOPE_NEXT(scope, payload)
#define KSCOPE_MARK(scope, payload)
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

struct Header {  // 64 bytes, in front of each warp's ring
  uint32_t magic, sm, block, warp, role, written, kept, zero;
  uint64_t ns_begin, clock_begin, ns_end, clock_end;
};
static_assert(sizeof(Header) == 64, "layout of the file");

struct Sink {        // where this module's kernels write
  char* base;        // rings of (64 + 8 * records) bytes; null: nothing is recorded
  uint32_t records;  // a ring, a power of two
  uint32_t warps;    // a block
  uint32_t stride;   // blocks whose number is a multiple of it are recorded
  uint32_t blocks;   // of the grid
};
static __constant__ Sink sink;

__device__ __forceinline__ uint64_t globaltimer() { uint64_t t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory"); return t; }
__device__ __forceinline__ uint32_t sm_id() { uint32_t s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }

struct Warp {
  char* ring = nullptr;  // null in lanes and blocks that do not record
  uint32_t at = 0, wrap = 0, written = 0, tag = 0, time = 0;

  __device__ __forceinline__ Warp(uint32_t role, bool elected) {
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    if (!elected || sink.base == nullptr || block >= sink.blocks || block % sink.stride) return;
    ring = sink.base + (uint64_t(block / sink.stride) * sink.warps + thread / 32) * (sizeof(Header) + 8ull * sink.records);
    wrap = 8 * sink.records - 1, at = wrap - 7;
    Header* h = reinterpret_cast<Header*>(ring);
    h->sm = sm_id(), h->block = block, h->warp = thread / 32, h->role = role;
    h->ns_begin = globaltimer(), h->clock_begin = clock64();
  }
  // Records stand between a wait and the work that waited, so they must not wait themselves: no branch around the store,
  // and what is stored is the record before, whose clock has arrived by now.
  __device__ __forceinline__ void write(uint32_t now_tag) {
    uint32_t now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
    store();
    tag = now_tag, time = now, written++;
  }
  __device__ __forceinline__ void store() {  // before the first record: rubbish into the last place, which the ring fills last
    asm volatile("{ .reg .pred p; setp.ne.u64 p, %0, 0; @p st.global.v2.u32 [%1 + 64], {%2, %3}; }" ::"l"(ring), "l"(ring + at), "r"(tag), "r"(time) : "memory");
    at = (at + 8) & wrap;
  }
  __device__ __forceinline__ void done() {
    if (ring == nullptr) return;
    store();
    Header* h = reinterpret_cast<Header*>(ring);
    h->clock_end = clock64(), h->ns_end = globaltimer();
    h->written = written, h->magic = 0x5057534bu;  // "KSWP"
  }
};

class Session {
 public:
  Session(uint32_t blocks, uint32_t warps, uint32_t records = 4096, uint32_t stride = 1) {
    while (records & (records - 1)) records += records & -records;
    rings_ = (blocks + stride - 1) / stride * warps;
    sink_ = Sink{nullptr, records, warps, stride, blocks};
    check(cudaMalloc(reinterpret_cast<void**>(&sink_.base), rings_ * bytes()), "cudaMalloc");
    check(cudaMemset(sink_.base, 0, rings_ * bytes()), "cudaMemset");
    check(cudaMemcpyToSymbol(sink, &sink_, sizeof sink_), "cudaMemcpyToSymbol");
  }
  ~Session() {
    Sink off = {};
    cudaMemcpyToSymbol(sink, &off, sizeof off);
    cudaFree(sink_.base);
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
    std::vector<char> all(rings_ * bytes());
    check(cudaMemcpy(all.data(), sink_.base, all.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    check(cudaMemset(sink_.base, 0, all.size()), "cudaMemset");
    cudaDeviceProp device;
    int id = 0;
    check(cudaGetDevice(&id), "cudaGetDevice");
    check(cudaGetDeviceProperties(&device, id), "cudaGetDeviceProperties");
    std::vector<char> body;
    uint32_t warps = 0;
    for (uint64_t r = 0; r < rings_; r++) {
      char* ring = all.data() + r * bytes();
      Header h;
      std::memcpy(&h, ring, sizeof h);
      if (h.magic != 0x5057534bu || h.block / sink_.stride % keep_every) continue;
      h.kept = h.written < sink_.records ? h.written : sink_.records;
      append(body, &h, sizeof h);
      for (uint32_t i = h.written - h.kept; i != h.written; i++) append(body, ring + sizeof h + 8u * (i & (sink_.records - 1)), 8);
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
  uint64_t bytes() const { return sizeof(Header) + 8ull * sink_.records; }
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
  uint64_t rings_ = 0;
  std::string roles_, scopes_, notes_;
};

}  // namespace kscope_trace

#define KSCOPE_TRACE_WARP(role, elected) kscope_trace::Warp kscope_warp_(role, elected)
#define KSCOPE_BEGIN(scope, payload) kscope_warp_.write(uint32_t(scope) << 22 | (uint32_t(payload) & 0x3fffffu))
#define KSCOPE_END(scope, payload) kscope_warp_.write(1u << 30 | uint32_t(scope) << 22 | (uint32_t(payload) & 0x3fffffu))
#define KSCOPE_MARK(scope, payload) kscope_warp_.write(2u << 30 | uint32_t(scope) << 22 | (uint32_t(payload) & 0x3fffffu))
#define KSCOPE_NEXT(scope, payload) kscope_warp_.write(3u << 30 | uint32_t(scope) << 22 | (uint32_t(payload) & 0x3fffffu))
#define KSCOPE_TRACE_DONE() kscope_warp_.done()

#endif
