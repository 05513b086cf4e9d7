/* msl_race.cpp - the book that msl_race.h keeps: an epoch of the threadgroup begins with each
 * threadgroup_barrier and each threadgroup, one of a SIMD-group with each simdgroup_barrier. Two
 * accesses are ordered when one is of an earlier epoch of the threadgroup, or both are of one
 * SIMD-group and one of an earlier epoch of that. Nothing is ever cleared: old epochs are too old.
 */
#include "msl_race.h"

namespace msl {
static constexpr uint32_t SIMD = 32;

void Races::clear() {
    regions.clear();
}

void Races::add(const void *at, size_t bytes) {
    regions.push_back({reinterpret_cast<uintptr_t>(at), std::vector<Cell>(bytes)});
}

void Races::begin_group(uint32_t n_simdgroups) {
    epoch++;
    if (simd_epochs.size() < n_simdgroups) simd_epochs.resize(n_simdgroups);
}

bool Races::is_ordered(const Access &before, uint32_t thread) const {
    if (before.epoch != epoch) return true;
    if (before.is_anybody || before.thread / SIMD != thread / SIMD) return false;
    if (before.simd_epoch != simd_epochs[thread / SIMD]) return true;
    return before.thread == thread && !before.is_several;
}

void Races::note_read(Access &read, uint32_t thread) {
    bool is_mine = read.epoch == epoch && read.thread / SIMD == thread / SIMD;
    bool is_now = is_mine && read.simd_epoch == simd_epochs[thread / SIMD];
    bool is_anybody = read.epoch == epoch && (read.is_anybody || !is_mine);
    bool is_several = is_now && (read.is_several || read.thread != thread);
    read = {epoch, simd_epochs[thread / SIMD], (uint16_t)thread, is_several, is_anybody};
}

bool Races::see(const void *at, size_t bytes, bool is_write, uint32_t thread, Race *race_out) {
    uintptr_t address = reinterpret_cast<uintptr_t>(at);
    for (RaceRegion &r : regions) {
        if (address - r.from >= r.cells.size()) continue;
        for (size_t i = address - r.from; i < address - r.from + bytes && i < r.cells.size(); i++) {
            Cell &c = r.cells[i];
            bool is_read_race = is_write && !is_ordered(c.read, thread);
            if (is_read_race || !is_ordered(c.write, thread)) {
                *race_out = {is_read_race ? c.read.thread : c.write.thread, (uint32_t)i,
                             (uint32_t)(&r - regions.data()), !is_read_race};
                return true;
            }
            if (is_write)
                c.write = {epoch, simd_epochs[thread / SIMD], (uint16_t)thread, false, false};
            else
                note_read(c.read, thread);
        }
        return false;
    }
    return false;
}
} // namespace msl
