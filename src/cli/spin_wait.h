/* cli/spin_wait.h - how long OpenMP threads spin while they wait for each other. */
#ifndef LNT_CLI_SPIN_WAIT_H
#define LNT_CLI_SPIN_WAIT_H

/* Shortens the wait to about 50 microseconds, unless the environment sets it (OMP_WAIT_POLICY,
 * GOMP_SPINCOUNT) or binds threads to cores (OMP_PROC_BIND).  By default the runtime spins for milliseconds;
 * beside another busy program the thread that is waited for then gets no core.  The runtime reads the
 * environment when it is loaded, so the program sets the variable and executes itself once more. */
void spin_wait_shorten(char **argv);

#endif
