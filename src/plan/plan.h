/* plan/plan.h - the inside of a plan, and what layers need of one beyond the public calls. */
#ifndef LNT_PLAN_PLAN_H
#define LNT_PLAN_PLAN_H

#include "attention/workspace.h"
#include "device/device.h"

struct lnt_plan {
    lnt_workspace work;
    int index;            /* of its algorithm, in the registry */
    lnt_plan_info info;   /* the device's part of it */
    lnt_device_plan *own; /* what the device has of it; the CPU: the plan itself */
    /* What follows is the CPU's, and so is the scratch of the workspace. */
    const lnt_algo *algo;
    lnt_report report; /* of runs since the last */
};

/* Runs from now on take temperature [heads], which is copied; the plan was made with one.  On a GPU
 * those that come after it on the context's stream. */
LNT_PRIVATE_API LNT_MUST_CHECK lnt_status lnt_plan_set_temperature(lnt_plan *plan,
                                                                  const double *temperature);

/* The CPU as a device (cpu_device.c). */
extern const struct lnt_device lnt_device_cpu;

#endif
