/* cli/cmd_info.c - `linnet info`: what this build contains and what machine it runs on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/request.h"
#include "cli/show/json.h"
#include "cli/show/report.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

/* The build may name its type; without that, whether assertions are in tells enough. */
#if defined(LNT_BUILD_TYPE)
#define BUILD_TYPE LNT_BUILD_TYPE
#elif defined(NDEBUG)
#define BUILD_TYPE "release"
#else
#define BUILD_TYPE "debug"
#endif

enum { MAX_NAMES = 32 };

typedef struct names {
    const char *name[MAX_NAMES];
    int count;
} names;

static void add(names *list, const char *name)
{
    if (list->count < MAX_NAMES) list->name[list->count++] = name;
}

typedef struct facts {
    char cpu[128];
    char gpu[400]; /* what it is, or why there is none */
    bool has_gpu;
    names built, available, devices, mechanisms, algorithms, maps, dtypes;
} facts;

/* The value of "key : value" if the line has that key, else NULL. */
static char *value_of(char *line, const char *key)
{
    const size_t length = strlen(key);
    char *colon = strchr(line, ':');
    if (strncmp(line, key, length) != 0 || !colon) return NULL;
    if (strspn(line + length, " \t") != (size_t)(colon - line) - length) return NULL;
    colon[1 + strcspn(colon + 1, "\n")] = '\0';
    return colon + 1 + strspn(colon + 1, " \t");
}

/* ARM cores tell two numbers where others tell a name. */
static const char *arm_core(unsigned long implementer, unsigned long part)
{
    static const struct {
        unsigned long implementer, part;
        const char *name;
    } cores[] = {
        { 0x41, 0xd03, "Cortex-A53" },  { 0x41, 0xd07, "Cortex-A57" },
        { 0x41, 0xd08, "Cortex-A72" },  { 0x41, 0xd0b, "Cortex-A76" },
        { 0x41, 0xd0c, "Neoverse-N1" }, { 0x41, 0xd40, "Neoverse-V1" },
        { 0x41, 0xd49, "Neoverse-N2" }, { 0x41, 0xd4f, "Neoverse-V2" },
        { 0xc0, 0xac3, "Ampere-1" },    { 0x61, 0x022, "Apple M1 (Icestorm)" },
        { 0x61, 0x023, "Apple M1 (Firestorm)" },
    };
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
        if (cores[i].implementer == implementer && cores[i].part == part) return cores[i].name;
    return NULL;
}

static void find_cpu(char *text, size_t capacity)
{
    char line[512];
    const char *value, *core;
    unsigned long implementer = 0, part = 0;
    snprintf(text, capacity, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        if ((value = value_of(line, "model name")) != NULL) {
            snprintf(text, capacity, "%s", value);
            break;
        }
        if ((value = value_of(line, "CPU implementer")) != NULL)
            implementer = strtoul(value, NULL, 0);
        if ((value = value_of(line, "CPU part")) != NULL) {
            part = strtoul(value, NULL, 0);
            core = arm_core(implementer, part);
            if (core) snprintf(text, capacity, "%s", core);
            else snprintf(text, capacity, "implementer 0x%02lx, part 0x%03lx", implementer, part);
            break;
        }
    }
    fclose(file);
}

/* By a context of its own, so that one on the CPU can be told about all the same. */
static void find_gpu(facts *f)
{
    lnt_ctx *ctx;
    lnt_device_info i = { .size = sizeof i };
    if (lnt_ctx_create(NULL, &ctx)) return;
    f->has_gpu = !lnt_ctx_set_device(ctx, option_choice(OPT_DEVICE, DEVICE_CUDA)) &&
                 !lnt_device_describe(ctx, &i);
    if (f->has_gpu)
        snprintf(f->gpu, sizeof f->gpu,
                 "%s, compute capability %d.%d, %d multiprocessors, %.1f GB, driver for CUDA %d.%d",
                 i.name, i.major, i.minor, i.multiprocessors, 1e-9 * (double)i.memory_bytes,
                 i.driver / 1000, i.driver % 1000 / 10);
    else
        snprintf(f->gpu, sizeof f->gpu, "%.390s", lnt_ctx_error(ctx));
    lnt_ctx_destroy(ctx);
}

static void collect(facts *f)
{
    *f = (facts){ .cpu = "" };
    find_gpu(f);
    find_cpu(f->cpu, sizeof f->cpu);
    for (int i = 0; lnt_isa_name(i); i++) {
        add(&f->built, lnt_isa_name(i));
        if (lnt_isa_available(i)) add(&f->available, lnt_isa_name(i));
    }
    for (int i = 0; option_choice(OPT_DEVICE, i); i++)
        if (i != DEVICE_CUDA || f->has_gpu) add(&f->devices, option_choice(OPT_DEVICE, i));
    for (int i = 0; option_choice(OPT_MECHANISM, i); i++)
        add(&f->mechanisms, option_choice(OPT_MECHANISM, i));
    for (int i = 0; lnt_algorithm_name(i); i++) add(&f->algorithms, lnt_algorithm_name(i));
    for (int i = 0; option_choice(OPT_FEATURE_MAP, i); i++)
        add(&f->maps, option_choice(OPT_FEATURE_MAP, i));
    for (int i = 0; option_choice(OPT_DTYPE, i); i++) add(&f->dtypes, option_choice(OPT_DTYPE, i));
}

static void print_json(const lnt_ctx *ctx, const facts *f)
{
    json line = json_begin(stdout);
    json_text(&line, "version", lnt_version());
    json_text(&line, "cpu", f->cpu);
    json_text(&line, "isa", lnt_ctx_isa(ctx));
    json_texts(&line, "isas_built", f->built.name, f->built.count);
    json_texts(&line, "isas_available", f->available.name, f->available.count);
    json_whole(&line, "threads", lnt_ctx_threads(ctx));
    json_texts(&line, "devices", f->devices.name, f->devices.count);
    json_text(&line, f->has_gpu ? "gpu" : "no_gpu", f->gpu);
    json_texts(&line, "mechanisms", f->mechanisms.name, f->mechanisms.count);
    json_texts(&line, "algorithms", f->algorithms.name, f->algorithms.count);
    json_texts(&line, "feature_maps", f->maps.name, f->maps.count);
    json_texts(&line, "dtypes", f->dtypes.name, f->dtypes.count);
    json_text(&line, "compiler", COMPILER);
    json_text(&line, "build", BUILD_TYPE);
    json_end(&line);
}

static void print_names(const char *heading, const names *list)
{
    printf("%-14s", heading);
    for (int i = 0; i < list->count; i++) printf("%s%s", i ? ", " : "", list->name[i]);
    fputc('\n', stdout);
}

static void print_text(const lnt_ctx *ctx, const facts *f)
{
    printf("linnet %s\n\n", lnt_version());
    printf("%-14s%s\n", "cpu", f->cpu);
    printf("%-14s%s\n", "isa", lnt_ctx_isa(ctx));
    print_names("  built", &f->built);
    print_names("  available", &f->available);
    printf("%-14s%d\n", "threads", lnt_ctx_threads(ctx));
    print_names("devices", &f->devices);
    printf("%-14s%s\n", f->has_gpu ? "  cuda" : "  no cuda", f->gpu);
    print_names("mechanisms", &f->mechanisms);
    print_names("algorithms", &f->algorithms);
    print_names("feature maps", &f->maps);
    print_names("dtypes", &f->dtypes);
    printf("%-14s%s, %s\n", "build", COMPILER, BUILD_TYPE);
}

static int run(const options *o)
{
    lnt_ctx *ctx;
    facts f;
    const int status = request_context(o, 0, &ctx);
    if (status) return status;
    collect(&f);
    if (opt_given(o, OPT_JSON)) print_json(ctx, &f);
    else print_text(ctx, &f);
    lnt_ctx_destroy(ctx);
    return EXIT_OK;
}

const command cmd_info = {
    .name = "info",
    .bit = CMD_INFO,
    .usage = "[options]",
    .summary = "Show the version, the CPU, the devices and the parts of this build",
    .details = "\n"
               "The environment variable LINNET_ISA selects one of the available instruction sets.\n",
    .run = run,
};
