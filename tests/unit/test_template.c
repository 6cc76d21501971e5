/* test_template.c - chat templates: what each part of the language gives, what is refused, what a
 * hostile one costs.
 *
 * Expected texts follow from Jinja's semantics with trim_blocks and lstrip_blocks, as models'
 * authors test them. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_template.c"
#include "model/template/template.h"
#include "support.h"

static const lnt_chat_message chat[] = { { "system", "Be brief.", 9, NULL },
                                         { "user", " Hi ", 4, NULL },
                                         { "assistant", "Yes?", 4, NULL },
                                         { "user", "\xc3\x89t\xc3\xa9 2\n", 8, NULL } };
static const struct tm now = { .tm_mday = 5, .tm_mon = 10, .tm_year = 126, .tm_wday = 4, .tm_hour = 15 };
static const lnt_template_options plain = { .bos_token = "<s>", .eos_token = "</s>", .now = &now };

/* The text, from malloc; NULL: refused. */
static char *rendered(lnt_ctx *ctx, const char *source, const lnt_chat_message *messages, size_t count,
                      const lnt_template_options *options)
{
    lnt_template *t;
    char *text, *copy = NULL;
    size_t bytes;
    if (lnt_template_open(ctx, "m.gguf", source, strlen(source), &t)) return NULL;
    if (!lnt_template_render(t, messages, count, options, &text, &bytes)) {
        copy = malloc(bytes + 1);
        assert_non_null(copy);
        memcpy(copy, text, bytes + 1);
        lnt_release(ctx, text, bytes + 1);
    }
    lnt_template_close(t);
    return copy;
}

typedef struct sample {
    const char *source, *expected;
} sample;

static void check_all(const sample *samples, int count)
{
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < count; i++) {
        char *text = rendered(ctx, samples[i].source, chat, COUNT_OF(chat), &plain);
        if (!text || strcmp(text, samples[i].expected) != 0)
            fail_msg("%s\n gives '%s'\n not '%s'", samples[i].source, text ? text : lnt_ctx_error(ctx),
                     samples[i].expected);
        free(text);
    }
    lnt_ctx_destroy(ctx);
}

static void blocks_leave_no_white_space_of_their_own(void **state)
{
    (void)state;
    static const sample samples[] = {
        { "a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc" },
        { "a\n  {{ 1 }}\nb", "a\n  1\nb" },
        { "a \n {%- if true -%} \n b {%- endif +%}\nc", "ab\nc" },
        { "x {% if true %} y {% endif %}\n z", "x  y  z" },
        { "  {%+ if true %}y{% endif %}", "  y" },
        { "a\n {# no #}\nb{#- no -#}\n c", "a\nbc" },
        { "a\r\nb\rc\n\n", "a\nb\nc\n" },
        { "{% raw %}{{ x }} {% y %}{% endraw %}", "{{ x }} {% y %}" },
        { "{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}", "}}1" },
    };
    check_all(samples, COUNT_OF(samples));
}

static void statements_do_what_jinjas_do(void **state)
{
    (void)state;
    static const sample samples[] = {
        { "{% for m in messages %}{{ loop.index }}{{ m.role[0] }}{{ ',' if not loop.last }}{% "
          "endfor %}",
          "1s,2u,3a,4u" },
        { "{% for m in messages if m.role == 'user' %}{{ loop.index0 }}/{{ loop.length }} {% "
          "endfor %}",
          "0/2 1/2 " },
        { "{% for m in messages %}{{ loop.revindex }}{{ loop.previtem.role if loop.previtem is "
          "defined }}{% endfor %}",
          "43system2user1assistant" },
        { "{% for x in [] %}a{% else %}none{% endfor %}", "none" },
        { "{% for a, b in {'x': 1, 'y': 2}.items() %}{{ a }}{{ b }}{% endfor %}", "x1y2" },
        { "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% "
          "endif %}{{ i }}{% endfor %}",
          "023" },
        { "{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
          "1231" },
        { "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor "
          "%}{{ ns.n }}",
          "6" },
        { "{% set x %} a {{ 1 }} {% endset %}[{{ x }}]{% set y | trim | upper %} b {% endset %}[{{ "
          "y }}]",
          "[ a 1 ][B]" },
        { "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} "
          "{{ f() }}",
          "121 123 2" },
        { "{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
          "3210" },
        { "{% macro f(a) %}<{{ caller() }}{{ a }}>{% endmacro %}{% call f(1) %}x{% endcall %}",
          "<x1>" },
        { "{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False" },
        { "{% filter upper %}a{{ 'b' }}{% endfilter %}{% generation %}c{% endgeneration %}",
          "ABc" },
        { "{% set a, b = 1, 'x' %}{{ b }}{{ a }}", "x1" },
    };
    check_all(samples, COUNT_OF(samples));
}

static void expressions_have_pythons_values(void **state)
{
    (void)state;
    static const sample samples[] = {
        { "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
          "3 -4 2 3.5 1024 0.5" },
        { "{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 100.0 }} {{ 1.5e300 * 1e10 }} {{ -0.0 }}",
          "0.30000000000000004 1e+16 1e-05 100.0 inf -0.0" },
        { "{{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 'a' in 'cab' }} {{ 4 not in [1, 2] }}",
          "True False True True" },
        { "{{ '' or 'x' }} {{ 1 and 0 }} {{ not [] }} {{ none is none }} {{ x.y if false else 'no' "
          "}}",
          "x 0 True True no" },
        { "{{ 'a' ~ 1 ~ none ~ true }}|{{ missing }}|{{ 1 if false }}", "a1NoneTrue||" },
        { "{{ [1, 'a', none, {'k': (1,)}] }}", "[1, 'a', None, {'k': (1,)}]" },
        { "{{ \"it's\" }} {{ [\"it's\", 'a\\n\\\\'] }}", "it's [\"it's\", 'a\\n\\\\']" },
        { "{{ messages[-1].content[:2] }}{{ 'abcdef'[::-2] }}{{ [1, 2, 3][1:] }}",
          "\xc3\x89tfdb[2, 3]" },
        { "{{ 'a' * 3 }} {{ [0] * 2 }} {{ [1] + [2] }} {{ (1, 2) == (1, 2) }} {{ 1 == 1.0 }}",
          "aaa [0, 0] [1, 2] True True" },
        { "{{ {'items': 3}.items is callable }} {{ {'items': 3}['items'] }}", "True 3" },
        { "{{ '\\u00e9\\x41' 'b' }} {{ \"\xe2\x82\xac\"|length }}", "\xc3\xa9"
                                                                    "Ab 1" },
        { "{{ strftime_now('%d %b %Y, %A %-d %H:%M') }}", "05 Nov 2026, Thursday 5 15:00" },
        { "{{ range(2, 8, 3) }} {{ range(4)|list }} {{ dict(a=1) }}",
          "range(2, 8, 3) [0, 1, 2, 3] {'a': 1}" },
        { "{{ bos_token + eos_token }}{{ tools }}{{ add_generation_prompt }}{{ pad_token is "
          "defined }}",
          "<s></s>NoneFalseFalse" },
    };
    check_all(samples, COUNT_OF(samples));
}

static void filters_tests_and_methods_have_jinjas_values(void **state)
{
    (void)state;
    static const sample samples[] = {
        { "[{{ ' a\xc2\xa0\n'|trim }}][{{ messages[1].content.strip() }}][{{ 'xxaxx'.strip('x') "
          "}}]",
          "[a][Hi][a]" },
        { "{{ 'a b-c'|title }} {{ \"it's\".title() }} {{ '\xc3\xa9T'|capitalize }} {{ "
          "messages[3].content|upper|trim }}",
          "A B-C It'S \xc3\x89t \xc3\x89T\xc3\x89 2" },
        { "{{ {'a': [1, 2.0, none], 'b': '\xc3\xa9\"\\n'}|tojson }}",
          "{\"a\": [1, 2.0, null], \"b\": \"\xc3\xa9\\\"\\n\"}" },
        { "{{ {'a': [1], 'b': {}}|tojson(indent=2) }}",
          "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}" },
        { "{{ messages|map(attribute='role')|join(',') }}", "system,user,assistant,user" },
        { "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ "
          "messages|rejectattr('role', 'eq', 'user')|list|length }}",
          "22" },
        { "{{ [3, 1, 2]|sort }} {{ ['b', 'A']|sort|first }} {{ [1, 1, 2]|unique|list }} {{ [1, "
          "2]|reverse|list }}",
          "[1, 2, 3] A [1, 2] [2, 1]" },
        { "{{ {'b': 1, 'a': 2}|dictsort }} {{ {'a': 1}|items|list }}",
          "[('a', 2), ('b', 1)] [('a', 1)]" },
        { "{{ x|default('d') }}{{ ''|d('e', true) }}{{ none|default('f') }}", "deNone" },
        { "{{ '42.7'|int }} {{ 'x'|int(-1) }} {{ '1.5'|float }} {{ -3|abs }} {{ [1, 2]|sum }} {{ "
          "[1, 5]|max }}",
          "42 -1 1.5 3 3 5" },
        { "{{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'abc'.find('c') }} {{ "
          "'aXbX'.replace('X', '-', 1) }}",
          "['a', 'b,c'] ['a', 'b'] 2 a-bX" },
        { "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ {'a': 1}.get('b', 2) "
          "}}",
          "True True 2" },
        { "{{ 'a\nb'|indent(2) }} {{ 'ab'|replace('b', 'c')|first }} {{ 'x'|string|list }}",
          "a\n  b a ['x']" },
        { "{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 'a' is in ['a'] }}{{ 1 is not string }}{{ {} "
          "is mapping }}",
          "TrueTrueTrueTrueTrue" },
        { "{{ true is number }}{{ 1 is boolean }}{{ [] is sequence }}{{ x is undefined }}",
          "TrueFalseTrueTrue" },
    };
    check_all(samples, COUNT_OF(samples));
}

static void what_a_template_cannot_have_is_refused_with_its_place(void **state)
{
    (void)state;
    static const sample samples[] = {
        { "\n{{ x|frob }}", "line 2, column 6: the filter 'frob' is not known" },
        { "{{ x is frob }}", "the test 'frob' is not known" },
        { "{% include 'x' %}", "line 1, column 4: expected if, for, set, macro" },
        { "{% if x %}", "expected endif, found the end of the template" },
        { "{{ x", "the template ends before '}}'" },
        { "{{ 'x }}", "a string without its end" },
        { "{# x", "a comment without its end" },
        { "{% break %}", "outside of a loop" },
        { "{{ frob() }}", "'frob' is not known here, and cannot be called" },
        { "{{ messages.append(1) }}", "'append' is not known here" },
        { "{{ ''.__class__.__mro__ }}", "'__class__' is not defined" },
        { "{{ x.y }}", "'x' is not defined" },
        { "{{ 1 + 'a' }}", "'+' is not known of an integer and a string" },
        { "{{ 1 // 0 }}", "division by zero" },
        { "{{ 2 ** 64 }}", "beyond 64 bits" },
        { "{{ 1 < 'a' }}", "have no order" },
        { "{{ raise_exception('roles must \n alternate') }}",
          "the template refuses this: roles must   alternate" },
        { "{% set x = 1 %}{% set x.a = 2 %}", "only a namespace" },
        { "{{ range(100001) }}", "at most 100000" },
        { "{{ [1]|map('upper') }}", "an iterator has no text" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(samples); i++) {
        char *text = rendered(ctx, samples[i].source, chat, COUNT_OF(chat), &plain);
        if (text || !strstr(lnt_ctx_error(ctx), samples[i].expected) ||
            !strstr(lnt_ctx_error(ctx), "'m.gguf'"))
            fail_msg("%s\n gives '%s', not '%s'", samples[i].source,
                     text ? text : lnt_ctx_error(ctx), samples[i].expected);
        free(text);
    }
    lnt_ctx_destroy(ctx);
}

static char *repeated(const char *begin, const char *part, int times, const char *end)
{
    char *text = malloc(strlen(begin) + strlen(part) * (size_t)times + strlen(end) + 1);
    assert_non_null(text);
    strcpy(text, begin);
    char *to = text + strlen(begin);
    for (int i = 0; i < times; i++, to += strlen(part)) strcpy(to, part);
    strcpy(to, end);
    return text;
}

static void a_template_that_would_not_end_is_stopped(void **state)
{
    (void)state;
    static const sample samples[] = {
        { "{{ range(1000000000000) }}", "range of 1000000000000" },
        { "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "" },
        { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deeper than" },
        { "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
          "endfor %}",
          "memory" },
        { "{{ 'a' * 9999999999 }}", "memory" },
        { "{{ [0] * 9223372036854775807 }}", "memory" },
        { "{% set ns = namespace(x=[]) %}{% for i in range(200) %}{% set ns.x = [ns.x] %}{% endfor "
          "%}{{ ns.x }}",
          "nested deeper" },
        { "{% set ns = namespace(x=1) %}{% set ns.x = ns %}{{ [ns] == [ns] }}{{ [ns] }}",
          "a namespace has no text" },
        { "{% for i in range(99999) %}{{ 'x' * 100000 }}{% endfor %}", "" },
    };
    tracker count;
    lnt_ctx *ctx = context_tracked(&count, 1, NULL);
    for (int i = 0; i < COUNT_OF(samples); i++) {
        assert_null(rendered(ctx, samples[i].source, chat, COUNT_OF(chat), &plain));
        if (!strstr(lnt_ctx_error(ctx), samples[i].expected))
            fail_msg("%s: %s", samples[i].source, lnt_ctx_error(ctx));
    }
    const char *const nests[][3] = { { "{{ ", "(", "" },          { "{{ ", "not ", "1 }}" },
                                     { "{{ ", "-", "1 }}" },      { "", "{% if 1 %}", "" },
                                     { "{{ x", "|upper", " }}" }, { "{{ 1", "+1", " }}" },
                                     { "{{ ", "[", "" },          { "{{ ", "1 if 1 else ", "1 }}" },
                                     { "{{ x", ".a", " }}" } };
    for (int i = 0; i < COUNT_OF(nests); i++) {
        char *deep = repeated(nests[i][0], nests[i][1], 100000, nests[i][2]);
        assert_null(rendered(ctx, deep, chat, COUNT_OF(chat), &plain));
        assert_non_null(strstr(lnt_ctx_error(ctx), "nested deeper than 200 levels"));
        free(deep);
    }
    assert_true(count.peak_bytes < (size_t)300 << 20);
    context_close_tracked(ctx, &count);
}

static void messages_and_names_come_from_json_too(void **state)
{
    (void)state;
    static const char json[] = "{\"tools\":[{\"name\":\"f\",\"n\":1.5}],\"x\":{\"tool_calls\":[{\"id\":7}]}}";
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_json document;
    assert_ok(ctx, lnt_json_parse(ctx, "j", NULL, json, strlen(json), &document));
    const lnt_chat_message call = { "assistant", NULL, 0, lnt_json_member(document.root, "x") };
    const lnt_template_options options = { .variables = document.root };
    char *text = rendered(
        ctx,
        "{{ tools|tojson }} {{ messages[0].tool_calls[0].id }} {{ messages[0].content is none }}"
        "{{ strftime_now is defined }}{{ bos_token is defined }}",
        &call, 1, &options);
    assert_non_null(text);
    assert_string_equal(text, "[{\"name\": \"f\", \"n\": 1.5}] 7 TrueFalseFalse");
    free(text);
    lnt_json_free(ctx, &document);
    lnt_ctx_destroy(ctx);
}

static void each_fallback_spells_the_conversation(void **state)
{
    (void)state;
    static const sample ends[] = { { "chatml", "<|im_start|>assistant\n" },
                                   { "llama2", "[INST] \xc3\x89t\xc3\xa9 2 [/INST]" },
                                   { "llama3",
                                     "<|start_header_id|>assistant<|end_header_id|>\n\n" },
                                   { "mistral", "[INST] \xc3\x89t\xc3\xa9 2 [/INST]" },
                                   { "gemma", "<start_of_turn>model\n" },
                                   { "zephyr", "</s>\n<|assistant|>\n" },
                                   { "phi3", "<|end|>\n<|assistant|>\n" },
                                   { "deepseek", "Assistant\xef\xbd\x9c>" },
                                   { "plain", "Assistant:" },
                                   { "command-r", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>" } };
    lnt_template_options options = plain;
    options.add_generation_prompt = true;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(ends); i++) {
        char *text = rendered(ctx, lnt_template_fallback(ends[i].source), chat, COUNT_OF(chat), &options);
        if (!text) fail_msg("%s: %s", ends[i].source, lnt_ctx_error(ctx));
        const size_t n = strlen(text), m = strlen(ends[i].expected);
        if (n < m || strcmp(text + n - m, ends[i].expected) != 0) fail_msg("%s: %s", ends[i].source, text);
        const char *brief = strstr(text, "Be brief."), *hi = strstr(text, "Hi"), *yes = strstr(text, "Yes?");
        assert_true(brief && hi && yes && brief < hi && hi < yes);
        free(text);
    }
    char *text = rendered(ctx, lnt_template_fallback("llama2"), chat, 2, &options);
    assert_string_equal(text, "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]");
    free(text);
    assert_null(lnt_template_fallback("none such"));
    for (size_t i = 0; lnt_template_fallback_name(i); i++)
        assert_non_null(lnt_template_fallback(lnt_template_fallback_name(i)));
    lnt_ctx_destroy(ctx);
}

static bool is_token(void *vocabulary, const char *token) { return strcmp(vocabulary, token) == 0; }

static void the_vocabulary_tells_the_form(void **state)
{
    (void)state;
    static char vocabulary[][24] = { "<|im_start|>", "<|start_header_id|>", "[INST]",
                                     "<start_of_turn>", "hello" };
    static const char *const forms[] = { "chatml", "llama3", "mistral", "gemma", "plain" };
    for (int i = 0; i < COUNT_OF(forms); i++)
        assert_string_equal(lnt_template_guess(is_token, vocabulary[i]), forms[i]);
}

static const char busy[] =
    "{%- macro f(a, b=[1, 2]) -%}{{ a|upper }}{% for x in b %}{{ x }}{% endfor %}{%- endmacro %}\n"
    "{% set ns = namespace(n=0, text='') %}\n{# a comment #}\n"
    "{% for m in messages if m.role != 'tool' %}\n  {%- set ns.n = ns.n + 1 %}\n"
    "{{ m.role ~ ': ' ~ (m.content or '')|trim }}{{ f('x', b=(3,)) if loop.first else loop.index "
    "}}\n"
    "{% if m.content is string and 'b' in m.content %}{{ m.content.split(' ')[-1][1:] }}{% elif "
    "ns.n > 2 %}"
    "{% break %}{% else %}{{ {'a': [1, 2.5, none]}|tojson(indent=1) }}{% endif %}\n{% endfor %}\n"
    "{{ messages|selectattr('role', 'in', ['user'])|map(attribute='content')|join(',') }}"
    "{% set y %}{{ strftime_now('%d %b') }}{% endset %}{{ y|replace('J', \"\\u004a\") }}{{ -7 // 2 "
    "** 2 % 3 }}\n";

static void any_cut_or_mutated_template_gives_text_or_a_sentence(void **state)
{
    (void)state;
    static const char pieces[] = "{}%#-+()[]'\"|.,:=~ \n\\0129abixn_\xc3\xff";
    dice d = { 41 };
    char copy[sizeof busy + 64];
    const size_t n = sizeof busy - 1;
    for (size_t cut = 0; cut <= n; cut++) LLVMFuzzerTestOneInput((const uint8_t *)busy, cut);
    for (int i = 0; i < budget(2000, 20000); i++) {
        size_t bytes = n;
        memcpy(copy, busy, n);
        for (int64_t change = dice_range(&d, 1, 6); change > 0; change--) {
            const size_t at = (size_t)dice_range(&d, 0, (int64_t)bytes - 1);
            const size_t length = (size_t)dice_range(&d, 1, 8),
                         from = (size_t)dice_range(&d, 0, (int64_t)n - 8);
            const int64_t kind = dice_range(&d, 0, 2);
            if (kind == 0) copy[at] = pieces[dice_range(&d, 0, (int64_t)sizeof pieces - 2)];
            else if (kind == 1 && at + length < bytes)
                memmove(copy + at, copy + at + length, (bytes -= length) - at);
            else if (bytes + length < sizeof copy) {
                memmove(copy + at + length, copy + at, bytes - at);
                memcpy(copy + at, busy + from, length);
                bytes += length;
            }
        }
        LLVMFuzzerTestOneInput((const uint8_t *)copy, bytes);
    }
}

static void without_memory_there_is_a_sentence_and_nothing_is_left(void **state)
{
    (void)state;
    for (int64_t fail_at = 0;; fail_at++) {
        tracker count;
        lnt_template *t = NULL;
        char *text = NULL;
        size_t bytes;
        lnt_ctx *ctx = context_tracked(&count, 1, NULL);
        count.fail_at = count.calls + fail_at;
        lnt_status status = lnt_template_open(ctx, "m", busy, strlen(busy), &t);
        if (!status) status = lnt_template_render(t, chat, COUNT_OF(chat), &plain, &text, &bytes);
        count.fail_at = -1;
        if (status) assert_int_equal(status, LNT_ERR_MEMORY);
        else lnt_release(ctx, text, bytes + 1);
        lnt_template_close(t);
        context_close_tracked(ctx, &count);
        if (!status) break;
        assert_true(fail_at < 1000);
    }
}

static void a_rendering_depends_on_its_arguments_alone(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_template *t;
    char *text[2];
    size_t bytes[2];
    assert_ok(ctx, lnt_template_open(ctx, "m", busy, strlen(busy), &t));
    for (int i = 0; i < 2; i++)
        assert_ok(ctx, lnt_template_render(t, chat, COUNT_OF(chat), &plain, &text[i], &bytes[i]));
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(text[0], text[1], bytes[0]);
    for (int i = 0; i < 2; i++) lnt_release(ctx, text[i], bytes[i] + 1);
    lnt_template_close(t);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_leave_no_white_space_of_their_own),
        cmocka_unit_test(statements_do_what_jinjas_do),
        cmocka_unit_test(expressions_have_pythons_values),
        cmocka_unit_test(filters_tests_and_methods_have_jinjas_values),
        cmocka_unit_test(what_a_template_cannot_have_is_refused_with_its_place),
        cmocka_unit_test(a_template_that_would_not_end_is_stopped),
        cmocka_unit_test(messages_and_names_come_from_json_too),
        cmocka_unit_test(each_fallback_spells_the_conversation),
        cmocka_unit_test(the_vocabulary_tells_the_form),
        cmocka_unit_test(any_cut_or_mutated_template_gives_text_or_a_sentence),
        cmocka_unit_test(without_memory_there_is_a_sentence_and_nothing_is_left),
        cmocka_unit_test(a_rendering_depends_on_its_arguments_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
