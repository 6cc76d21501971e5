/* io/map.c - maps a regular file read-only, and passes advice about its pages on.  O(1) whatever its size.
 * */
#include "io/map.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/file.h"

lnt_status lnt_map_open(lnt_ctx *ctx, const char *path, lnt_map *out)
{
    *out = (lnt_map){ 0 };
    lnt_file_reader file;
    const lnt_status status = lnt_file_open(ctx, path, &file);
    if (status) return status;
    if (file.size == 0 || file.size > SIZE_MAX) {
        lnt_file_close(&file);
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s", path,
                        file.size ? "it is larger than memory can address" : "the file is empty");
    }
    void *data = mmap(NULL, (size_t)file.size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    const int error = errno;
    lnt_file_close(&file); /* the pages stay */
    if (data == MAP_FAILED)
        return lnt_fail(ctx, LNT_ERR_FILE, "cannot map " LNT_FILE_FMT ": %s", path, strerror(error));
    *out = (lnt_map){ .data = data, .bytes = (size_t)file.size };
    return LNT_OK;
}

void lnt_map_close(lnt_map *map)
{
    if (map->data) munmap((void *)(uintptr_t)map->data, map->bytes);
    *map = (lnt_map){ 0 };
}

void lnt_map_advise(const void *from, size_t bytes, lnt_map_advice advice)
{
    static const int words[] = {
        [LNT_MAP_SOON] = MADV_WILLNEED,
        [LNT_MAP_IN_ORDER] = MADV_SEQUENTIAL,
        [LNT_MAP_ANYWHERE] = MADV_RANDOM,
        [LNT_MAP_NO_LONGER] = MADV_DONTNEED,
    };
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)from, end = begin + bytes;
    const uintptr_t first = begin / page * page;
    if (bytes) madvise((void *)first, end - first, words[advice]);
}
