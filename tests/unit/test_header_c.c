/* tests/unit/test_header_c.c - linnet.h as the first include of a C program, used through C. */
#include "linnet.h"
#include "linnet.h" /* twice: the guard holds */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void the_linked_version_is_that_of_the_header(void **test)
{
    (void)test;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", LNT_VERSION_MAJOR, LNT_VERSION_MINOR, LNT_VERSION_PATCH);
    assert_string_equal(lnt_version(), LNT_VERSION_STRING);
    assert_string_equal(lnt_version(), text);
}

static void every_status_has_a_name_of_its_own(void **test)
{
    (void)test;
    for (int i = LNT_OK; i <= LNT_ERR_FORMAT; i++) {
        assert_true(strlen(lnt_status_name((lnt_status)i)) > 0);
        for (int j = LNT_OK; j < i; j++)
            assert_string_not_equal(lnt_status_name((lnt_status)i), lnt_status_name((lnt_status)j));
    }
    assert_non_null(lnt_status_name((lnt_status)99));
}

static void init_sets_the_defaults_the_header_names(void **test)
{
    (void)test;
    lnt_attn_desc d;
    memset(&d, 0x5a, sizeof d);
    assert_int_equal(lnt_attn_desc_init(&d, sizeof d), LNT_OK);
    assert_int_equal(d.size, sizeof d);
    assert_int_equal(d.batch, 1);
    assert_int_equal(d.heads, 1);
    assert_int_equal(d.kv_heads, 0);
    assert_int_equal(d.length_q, 0);
    assert_int_equal(d.length_k, -1);
    assert_int_equal(d.dim_value, 0);
    assert_int_equal(d.causal, 0);
    assert_int_equal(d.backward, 0);
    assert_null(d.algorithm);
    assert_true(d.scale != d.scale); /* NaN */
    assert_int_equal(d.linear.feature_map, LNT_MAP_ELU1);
    assert_int_equal(d.linear.features, 0);
    assert_true(d.linear.eps > 0.99e-6 && d.linear.eps < 1.01e-6);
    assert_null(d.decay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_linked_version_is_that_of_the_header),
        cmocka_unit_test(every_status_has_a_name_of_its_own),
        cmocka_unit_test(init_sets_the_defaults_the_header_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
