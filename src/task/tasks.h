/* task/tasks.h - the tasks; each is in the file of its name. */
#ifndef LNT_TASK_TASKS_H
#define LNT_TASK_TASKS_H

#include "task/task.h"

extern const lnt_task_kind lnt_task_copy, lnt_task_text, lnt_task_listops, lnt_task_mnist,
    lnt_task_mnist_class, lnt_task_speech;

#endif
