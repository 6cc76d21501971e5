/* plan/plan.h - what layers need of a plan beyond the public calls. */
#ifndef LNT_PLAN_PLAN_H
#define LNT_PLAN_PLAN_H

#include "linnet.h"

/* Runs from now on take temperature [heads], which is copied; the plan was made with one. */
void lnt_plan_set_temperature(lnt_plan *plan, const double *temperature);

#endif
