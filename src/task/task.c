/* task/task.c - the list of tasks. */
#include "task/task.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/crc64.h"
#include "linnet/model.h"
#include "io/file.h"
#include "task/tasks.h"

static const lnt_task_kind *const kinds[] = { &lnt_task_copy, &lnt_task_text, &lnt_task_listops,
                                              &lnt_task_mnist, &lnt_task_mnist_class,
                                              &lnt_task_speech };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const lnt_task_kind *kind_at(int index)
{
    return index >= 0 && index < KINDS ? kinds[index] : NULL;
}

const lnt_task_kind *lnt_task_find(const char *name)
{
    for (int i = 0; i < KINDS; i++)
        if (!strcmp(kinds[i]->name, name)) return kinds[i];
    return NULL;
}

const char *lnt_task_name(int index)
{
    const lnt_task_kind *kind = kind_at(index);
    return kind ? kind->name : NULL;
}

const char *lnt_task_summary(int index)
{
    const lnt_task_kind *kind = kind_at(index);
    return kind ? kind->summary : NULL;
}

const char *lnt_task_data(int index)
{
    const lnt_task_kind *kind = kind_at(index);
    return kind ? kind->data : NULL;
}

lnt_status lnt_task_open(lnt_task *task, lnt_config *config)
{
    const lnt_task_kind *kind = task->kind;
    if (kind->data && !task->data)
        return lnt_fail(task->ctx, LNT_ERR_ARGUMENT, "task %s needs data: %s", kind->name,
                        kind->data);
    if (!kind->data && task->data)
        return lnt_fail(task->ctx, LNT_ERR_ARGUMENT, "task %s makes its own data, " LNT_FILE_FMT
                                                     " was given", kind->name, task->data);
    task->test_examples = INT64_MAX;
    task->data_checksum = 0;
    if (kind->own_bytes) {
        task->own = lnt_allocate(task->ctx, kind->own_bytes, "the data of a task");
        if (!task->own) return LNT_ERR_MEMORY;
        memset(task->own, 0, kind->own_bytes);
    }
    return kind->open(task, config);
}

lnt_status lnt_task_shape(lnt_task *task, lnt_config *config)
{
    return task->kind->shape ? task->kind->shape(task, config) : task->kind->open(task, config);
}

void lnt_task_close(lnt_task *task)
{
    if (task->own && task->kind->own_bytes) {
        task->kind->close(task);
        lnt_release(task->ctx, task->own, task->kind->own_bytes);
    }
    task->own = NULL;
    lnt_tokenizer_close(task->ctx, &task->tokenizer);
    task->kind = NULL;
}

void lnt_task_add_checksum(lnt_task *task, const void *data, size_t bytes)
{
    lnt_crc64 crc;
    lnt_crc64_init(&crc);
    lnt_crc64_add(&crc, &task->data_checksum, sizeof task->data_checksum);
    lnt_crc64_add(&crc, data, bytes);
    task->data_checksum = lnt_crc64_finish(&crc);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int lnt_task_scan(const lnt_task *task, int (*wanted)(const struct dirent *entry), struct dirent ***names)
{
    const int count = scandir(task->data, names, wanted, by_name);
    if (count < 0)
        lnt_fail(task->ctx, LNT_ERR_FILE, "cannot read " LNT_FILE_FMT ": %s", task->data, strerror(errno));
    return count;
}

void lnt_task_scan_free(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
}
