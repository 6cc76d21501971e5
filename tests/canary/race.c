/* tests/canary/race.c - a loop that two threads run: clean, or with RACE a sum they both write.
 *
 * ThreadSanitizer must report the second and be quiet about the first: without libarcher it does
 * not see OpenMP's barriers and reports both. */
#include <stdio.h>

int main(void)
{
    static int data[1000];
    long sum = 0;
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 1000; i++) {
        data[i] = i;
#ifdef RACE
        sum += data[i];
#endif
    }
#pragma omp parallel for num_threads(4) /* reads what another thread wrote before the barrier */
    for (int i = 0; i < 1000; i++) data[999 - i] += i;
    for (int i = 0; i < 1000; i++) sum += data[i];
    printf("sum %ld\n", sum);
    return 0;
}
