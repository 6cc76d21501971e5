/* cli/image_list.c - see image_list.h. */
#include "cli/image_list.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/show/report.h"
#include "cli/text_buffer.h"

static bool is_directory(const char *path)
{
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}

static bool has_image_name(const char *name)
{
    static const char *const ends[] = { ".png", ".jpg", ".jpeg" };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof ends[0]; i++)
        if (strcasecmp(dot, ends[i]) == 0) return true;
    return false;
}

/* Whether a file begins as PNG and JPEG files do; of a pipe nothing is taken. */
static bool is_image(const char *path)
{
    unsigned char begin[4] = { 0 };
    struct stat at;
    FILE *file = stat(path, &at) == 0 && S_ISREG(at.st_mode) ? fopen(path, "rb") : NULL;
    const bool whole = file && fread(begin, 1, sizeof begin, file) == sizeof begin;
    if (file) fclose(file);
    return whole && (memcmp(begin, "\x89PNG", 4) == 0 || memcmp(begin, "\xff\xd8\xff", 3) == 0);
}

static char *copy_of(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

static int add(image_list *list, const char *path, size_t bytes)
{
    if (list->count == list->room) {
        const size_t room = 2 * list->room + 16;
        char **paths = realloc(list->path, room * sizeof *paths);
        if (paths) list->path = paths;
        size_t *folders = paths ? realloc(list->folder, room * sizeof *folders) : NULL;
        if (!folders) return fail_memory(room * sizeof *paths);
        list->folder = folders;
        list->room = room;
    }
    char *copy = copy_of(path, bytes);
    if (!copy) return fail_memory(bytes + 1);
    list->path[list->count] = copy;
    list->folder[list->count++] = list->folder_count ? list->folder_count - 1 : 0;
    return EXIT_OK;
}

static int in_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* "directory/name", into `path`. */
static int join(const char *directory, const char *name, char path[PATH_MAX])
{
    const int bytes = snprintf(path, PATH_MAX, "%s/%s", directory, name);
    return bytes < PATH_MAX ? EXIT_OK : fail("'%.300s': the path is too long", directory);
}

static int add_folder(image_list *list, const char *name)
{
    char **folders = realloc(list->folders, (list->folder_count + 1) * sizeof *folders);
    if (folders) list->folders = folders;
    char *copy = folders ? copy_of(name, strlen(name)) : NULL;
    if (!copy) return fail_memory(strlen(name) + 1);
    list->folders[list->folder_count++] = copy;
    return EXIT_OK;
}

static int read_directory(const char *directory, bool of_classes, image_list *list);

static int take_entry(const char *directory, const char *name, bool of_classes, image_list *list)
{
    char path[PATH_MAX];
    int status = join(directory, name, path);
    if (status) return status;
    if (!of_classes)
        return has_image_name(name) && !is_directory(path) ? add(list, path, strlen(path)) : EXIT_OK;
    if (!is_directory(path)) return EXIT_OK;
    status = add_folder(list, name);
    return status ? status : read_directory(path, false, list);
}

/* Its images; or those in its directories. */
static int read_directory(const char *directory, bool of_classes, image_list *list)
{
    struct dirent **entries = NULL;
    const int count = scandir(directory, &entries, is_shown, in_bytes);
    if (count < 0) return fail("'%.300s': cannot be read as a directory", directory);
    int status = EXIT_OK;
    for (int i = 0; i < count; i++) {
        if (!status) status = take_entry(directory, entries[i]->d_name, of_classes, list);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static int read_lines(const char *path, image_list *list)
{
    text_buffer text = { 0 };
    int status = text_buffer_read(&text, path);
    for (const char *at = text.text; !status && at && *at;) {
        const size_t bytes = strcspn(at, "\n");
        if (bytes) status = add(list, at, bytes);
        at += bytes + (at[bytes] == '\n');
    }
    free(text.text);
    return status;
}

int image_list_read(const char *path, image_list *list)
{
    int status;
    *list = (image_list){ 0 };
    if (!is_directory(path)) {
        status = is_image(path) ? add(list, path, strlen(path)) : read_lines(path, list);
    } else {
        status = read_directory(path, false, list);
        if (!status && !list->count) status = read_directory(path, true, list);
    }
    if (!status && !list->count)
        status = fail("'%.300s': has no images, which end in .png, .jpg or .jpeg", path);
    return status;
}

void image_list_free(image_list *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->path[i]);
    for (size_t i = 0; i < list->folder_count; i++) free(list->folders[i]);
    free(list->path);
    free(list->folder);
    free(list->folders);
    *list = (image_list){ 0 };
}
