/* tools/isas.c - prints the instruction sets built in that this CPU runs, best last. */
#include <stdio.h>

#include "linnet.h"

int main(void)
{
    for (int i = 0; lnt_isa_name(i); i++)
        if (lnt_isa_available(i)) puts(lnt_isa_name(i));
    return 0;
}
