/* io_support.h - what the tests of src/io share: a folder of their own, and files as bytes. */
#ifndef LNT_TESTS_IO_SUPPORT_H
#define LNT_TESTS_IO_SUPPORT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

/* For setup and teardown of a group: its tests run in a new, empty folder, and leave it empty. */
static inline int enter_folder(void **state)
{
    static char name[] = "io-XXXXXX";
    *state = name;
    return mkdtemp(name) && chdir(name) == 0 ? 0 : -1;
}

static inline int leave_folder(void **state)
{
    return chdir("..") == 0 && rmdir(*state) == 0 ? 0 : -1;
}

/* Files in the folder: a forgotten temporary shows. */
static inline int count_files(void)
{
    int count = 0;
    DIR *folder = opendir(".");
    assert_non_null(folder);
    for (const struct dirent *e; (e = readdir(folder));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(folder);
    return count;
}

static inline void put_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* The whole file, from malloc, and a zero after it. */
static inline unsigned char *get_file(const char *path, size_t *count)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    *count = (size_t)st.st_size;
    unsigned char *bytes = malloc(*count + 1);
    FILE *file = fopen(path, "rb");
    assert_non_null(bytes);
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    fclose(file);
    bytes[*count] = 0;
    return bytes;
}

static inline void assert_file_holds(const char *path, const void *bytes, size_t count)
{
    size_t found;
    unsigned char *got = get_file(path, &found);
    assert_int_equal(found, count);
    assert_memory_equal(got, bytes, count);
    free(got);
}

#endif
