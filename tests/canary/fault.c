/* tests/canary/fault.c - one planted fault, to see that a sanitizer build reports it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    (void)argv;
#ifdef READ_PAST_END
    int *volatile data = calloc(4, sizeof(int)); /* hides the size from the compiler */
    const int value = data ? data[3 + argc] : 0;
    free(data);
#endif
#ifdef SIGNED_OVERFLOW
    const int value = INT_MAX - 1 + argc * 2;
#endif
#ifdef LEAK
    int *volatile data = calloc(4, sizeof(int));
    const int value = data ? data[argc] : 0;
    data = NULL;
#endif
    printf("value %d\n", value);
    return 0;
}
