/* cli/image_list.h - the images that a command reads, by their paths. */
#ifndef LNT_CLI_IMAGE_LIST_H
#define LNT_CLI_IMAGE_LIST_H

#include <stddef.h>

typedef struct image_list {
    char **path;    /* [count] */
    size_t *folder; /* [count]: the one of `folders` that an image is in */
    size_t count, room;
    char **folders; /* [folder_count]: their names; 0: images that are not sorted into classes */
    size_t folder_count;
} image_list;

/* `path` is an image; a directory with images, which are taken in the order of their names; a directory whose
 * directories have images, each a class; or a text that names an image a line.  EXIT_OK, or one sentence and
 * EXIT_FAILED; image_list_free in any case. */
int image_list_read(const char *path, image_list *list);
void image_list_free(image_list *list);

#endif
