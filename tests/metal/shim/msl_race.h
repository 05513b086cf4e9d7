/* msl_race.h - accesses of threadgroup memory that no barrier orders.
 *
 * Two threads of a threadgroup that touch the same byte, one of them writing, need a barrier with
 * mem_threadgroup between; within a SIMD-group simdgroup_barrier is enough. SIMD-group functions
 * order nothing: Metal does not say that the threads of a SIMD-group run in step. A missing barrier
 * is found whatever the order of threads, where running them in several orders finds most.
 *
 * Every byte remembers its last write and last reads: by whom and in which epoch; barriers begin
 * epochs. Of many readers only that there were several is kept, of one SIMD-group or of more.
 * Atomic operations are not seen. Threads: one threadgroup at a time. */
#ifndef MSL_RACE_H
#define MSL_RACE_H

#include <stddef.h>
#include <stdint.h>
#include <vector>

namespace msl {
struct Access {
    uint32_t epoch = 0;      /* of the threadgroup; 0: never */
    uint32_t simd_epoch = 0; /* of the SIMD-group, within it */
    uint16_t thread = 0;
    bool is_several = false; /* others of its SIMD-group as well */
    bool is_anybody = false; /* of other SIMD-groups as well */
};
struct Cell {
    Access write, read;
};
struct RaceRegion {
    uintptr_t from;
    std::vector<Cell> cells; /* a byte each */
};
/* Two accesses: "reads" what thread `other` "writes". */
struct Race {
    uint32_t other, offset, region;
    bool other_writes;
};

struct Races {
    std::vector<RaceRegion> regions;
    std::vector<uint32_t> simd_epochs;
    uint32_t epoch = 0;

    void clear();
    void add(const void *at, size_t bytes);
    void begin_group(uint32_t n_simdgroups);
    void barrier() {
        epoch++;
    }
    void simd_barrier(uint32_t simdgroup) {
        simd_epochs[simdgroup]++;
    }
    /* Notes the access; true: it races with another, told in *race_out. */
    bool see(const void *at, size_t bytes, bool is_write, uint32_t thread, Race *race_out);

  private:
    bool is_ordered(const Access &before, uint32_t thread) const;
    void note_read(Access &read, uint32_t thread);
};
} // namespace msl

#endif
