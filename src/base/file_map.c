/* file_map.c - mapped files. A mapped file that shrinks while it is read raises SIGBUS; model files
 * do not change while they are served, and every offset is checked against the size seen here, so
 * that a short file is an error message, not a signal.
 *
 * Where pages are smaller than FILE_MAP_ALIGN a mapping begins at any of them. So addresses are
 * reserved first, with room to align, and the file is mapped over them; what is reserved behind its
 * end reads as zeros and costs addresses, not memory. */
#include "file_map.h"

#include "mem.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum radish_status open_file(const char *path, int *fd_out, size_t *size_out,
                                    struct radish_error *err) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(err, errno == ENOENT ? RADISH_E_NOT_FOUND : RADISH_E_IO, "%s: %s", path,
                         strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return error_set(err, RADISH_E_IO, "%s: not a file", path);
    }
    *fd_out = fd;
    *size_out = (size_t)st.st_size;
    return RADISH_OK;
}

static size_t round_up(size_t size) {
    return (size + FILE_MAP_ALIGN - 1) / FILE_MAP_ALIGN * FILE_MAP_ALIGN;
}

/* size > 0 bytes of the file at aligned addresses; MAP_FAILED and errno. */
static void *map_aligned(int fd, size_t size) {
    if (size > SIZE_MAX / 2) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    const size_t whole = round_up(size);
    uint8_t *room =
        mmap(NULL, whole + FILE_MAP_ALIGN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return MAP_FAILED;
    uint8_t *begin = room + (round_up((uintptr_t)room) - (uintptr_t)room), *end = begin + whole;
    if (begin > room) munmap(room, (size_t)(begin - room));
    if (end < room + whole + FILE_MAP_ALIGN)
        munmap(end, (size_t)(room + whole + FILE_MAP_ALIGN - end));
    void *mapped = mmap(begin, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
    if (mapped == MAP_FAILED) {
        const int code = errno;
        munmap(begin, whole);
        errno = code;
    }
    return mapped;
}

enum radish_status file_map_open(const char *path, struct file_map *map_out,
                                 struct radish_error *err) {
    static const uint8_t nothing[1];
    int fd = -1;
    size_t size = 0;
    *map_out = (struct file_map){nothing, 0};
    RADISH_TRY(open_file(path, &fd, &size, err));
    if (size) {
        void *p = map_aligned(fd, size);
        if (p == MAP_FAILED) {
            close(fd);
            return error_set(err, RADISH_E_IO, "%s: cannot be mapped: %s", path, strerror(errno));
        }
        *map_out = (struct file_map){p, size};
    }
    close(fd);
    return RADISH_OK;
}

void file_map_close(struct file_map *map) {
    if (!map) return;
    if (map->size) munmap((void *)(uintptr_t)map->data, round_up(map->size));
    *map = (struct file_map){0};
}

void file_map_release(const struct file_map *map, size_t offset, size_t n) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = (offset + page - 1) / page * page, end = (offset + n) / page * page;
    if (begin < end && end <= map->size)
        madvise((void *)(uintptr_t)(map->data + begin), end - begin, MADV_DONTNEED);
}

enum radish_status file_read(const char *path, size_t bytes_max, char **data_out, size_t *len_out,
                             struct radish_error *err) {
    int fd = -1;
    size_t size = 0, done = 0;
    *data_out = NULL;
    *len_out = 0;
    RADISH_TRY(open_file(path, &fd, &size, err));
    char *data = NULL;
    enum radish_status status = RADISH_OK;
    if (size > bytes_max) {
        status = error_set(err, RADISH_E_LIMIT, "%s: %zu bytes, more than the limit of %zu", path,
                           size, bytes_max);
        goto done;
    }
    data = mem_alloc(size + 1, 1);
    if (!data) {
        status = error_nomem(err);
        goto done;
    }
    while (done < size) {
        ssize_t got = read(fd, data + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            status = error_set(err, RADISH_E_IO, "%s: %s", path,
                               got < 0 ? strerror(errno) : "became shorter while read");
            goto done;
        }
        done += (size_t)got;
    }
    data[size] = '\0';
    *data_out = data;
    *len_out = size;
    data = NULL;
done:
    free(data);
    close(fd);
    return status;
}

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool file_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
