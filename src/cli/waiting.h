/* cli/waiting.h - how long threads that wait for each other keep their cores busy. */
#ifndef LNT_CLI_WAITING_H
#define LNT_CLI_WAITING_H

/* Some 50 microseconds, where the environment does not say (OMP_WAIT_POLICY, GOMP_SPINCOUNT).  OpenMP's
 * runtime waits for milliseconds by itself, and nobody else has the core: beside another busy program the
 * thread that is waited for does not get to run.  It reads the environment as it is loaded, so the program
 * starts itself anew, once; where that cannot be done it goes on as it is, and where threads are bound to
 * cores (OMP_PROC_BIND), which then are theirs. */
void waiting_be_brief(char **argv);

#endif
