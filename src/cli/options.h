/* cli/options.h - the parsed command line.  Parser, help and error messages come from one table. */
#ifndef LNT_CLI_OPTIONS_H
#define LNT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Commands are bits, so that an option can name all that take it. */
typedef enum command_bit {
    CMD_ATTEND = 1,
    CMD_PLAN = 2,
    CMD_BENCH = 4,
    CMD_INFO = 8,
    CMD_DEMO = 16,
    CMD_TRAIN = 32,
    CMD_EVAL = 64,
    CMD_GENERATE = 128,
    CMD_TOKENIZE = 256,
    CMD_EMBED = 512,
    CMD_CHAT = 1024,
    CMD_IMPORT = 2048
} command_bit;

typedef enum option_id {
    /* the problem */ OPT_MECHANISM, OPT_CAUSAL, OPT_HEADS, OPT_KV_HEADS, OPT_DIM, OPT_DIM_VALUE,
        OPT_LENGTH, OPT_BATCH, OPT_SCALE,
    /* softmax */ OPT_CACHE, OPT_SESSION_CACHE,
    /* linear */ OPT_FEATURE_MAP, OPT_FEATURES, OPT_EPS, OPT_DECAY, OPT_COMPENSATED,
    /* taylor */ OPT_TERMS, OPT_COEFFICIENTS, OPT_SIGMA, OPT_NORMALIZE, OPT_TEMPERATURE, OPT_CENTER,
        OPT_OUTPUT_NORM,
    /* cur */ OPT_LANDMARKS, OPT_SELECT, OPT_EMBED_COLUMN, OPT_SEPARATE_INDICES, OPT_PIN, OPT_NO_ROW_COPY,
        OPT_PINV, OPT_PINV_ITERATIONS, OPT_PINV_INIT, OPT_RIDGE, OPT_ACTIVATION, OPT_INDICES_OUT,
    /* softmax, hybrid */ OPT_WINDOW, OPT_CAP, OPT_ALIBI, OPT_ALIGN, OPT_MASK, OPT_SINK, OPT_FAR,
    /* how and where it is computed */ OPT_SEED, OPT_DTYPE, OPT_MODEL_DTYPE, OPT_PASS, OPT_STUDY,
        OPT_ALGORITHM, OPT_CHUNK, OPT_DEVICE, OPT_THREADS, OPT_NO_CALIBRATE, OPT_CALIBRATION, OPT_STATE_IN,
        OPT_STATE_OUT, OPT_COMPARE, OPT_OUTPUT, OPT_SVG,
    /* models */ OPT_TASK, OPT_MODEL, OPT_CONFIG, OPT_DATA, OPT_OUT, OPT_STEPS, OPT_RESUME, OPT_HELD_OUT,
        OPT_BATCHES, OPT_TEXT, OPT_FILE, OPT_TOKEN_IDS, OPT_LOGITS, OPT_LAST, OPT_WEIGHTS, OPT_TOKENIZER,
    /* generating */ OPT_PROMPT, OPT_PROMPT_FILE, OPT_TOKENS, OPT_SAMPLE_TEMPERATURE, OPT_TOP_K, OPT_TOP_P,
        OPT_MIN_P, OPT_REPETITION_PENALTY, OPT_PENALTY_TOKENS, OPT_STOP, OPT_SYSTEM, OPT_FOREVER,
        OPT_SAVE_STATE, OPT_LOAD_STATE, OPT_IMAGES, OPT_EACH, OPT_FIRST, OPT_KEEP,
    /* all */ OPT_JSON, OPT_HELP, OPTION_COUNT
} option_id;

typedef enum pass_kind { PASS_FORWARD = 0, PASS_BACKWARD = 1, PASS_STEP = 2 } pass_kind;
typedef enum align_kind { ALIGN_END = 0, ALIGN_BEGIN = 1 } align_kind;
typedef enum device_kind { DEVICE_CPU = 0, DEVICE_CUDA = 1 } device_kind;

enum { MAX_OPERANDS = 3, MAX_PER_HEAD = 4096, MAX_TERMS = 32, DEFAULT_TERMS = 4, MAX_PINS = 256,
       MAX_STOPS = 16 };
enum { DEFAULT_LANDMARKS = 64, DEFAULT_WINDOW = 128 };
enum { DEFAULT_SAFE_TERMS = 3 }; /* of hybrid and taylorshift: 1 + x + x^2/2 is above 0 */

typedef struct option_value {
    bool given;
    int64_t whole;    /* counts and choices */
    uint64_t seed;
    double real;
    const char *text; /* as written; into argv */
} option_value;

typedef struct options {
    option_value value[OPTION_COUNT];
    double decay[MAX_PER_HEAD];
    int decay_count;
    double temperature[MAX_PER_HEAD];
    int temperature_count;
    double coefficients[MAX_TERMS];
    int coefficient_count; /* 0: those of the Taylor series, or fitted */
    bool fit;
    int64_t pin[MAX_PINS];
    int pin_count;
    const char *stop[MAX_STOPS]; /* into argv */
    int stop_count;
    const char *operand[MAX_OPERANDS];
    int operand_count;
} options;

/* What a command is, for its usage line and for dispatch. */
typedef struct command {
    const char *name;
    int bit; /* a command_bit */
    const char *usage;   /* what follows the name */
    const char *summary; /* one line */
    const char *details; /* lines for --help; may be "" */
    void (*more)(FILE *to); /* prints more of them; NULL: none */
    int operands;        /* exactly this many */
    int (*run)(const options *o);
} command;

/* 0, or EXIT_USAGE with the sentence said.  Stops early at --help. */
int options_parse(const command *cmd, int argc, char **argv, options *out);
void options_help(const command *cmd, FILE *to);

/* "--dim", or for those that have a short form "-o/--output". */
const char *option_name(option_id id);
/* The first given option that describes the problem to compute, or OPTION_COUNT. */
option_id options_first_problem(const options *o);
/* The same, without those that are `allowed`. */
option_id options_first_other(const options *o, const bool allowed[OPTION_COUNT]);
/* The first of a list that is given, or OPTION_COUNT, with which the list ends. */
option_id options_first_of(const options *o, const option_id *list);
/* The first given option that is one of mechanisms, or OPTION_COUNT. */
option_id options_first_of_mechanisms(const options *o);
/* Refuses options that the mechanism does not take. */
int options_check_mechanism(const options *o);

/* Name of choice `index` of an option, NULL past the last. */
const char *option_choice(option_id id, int index);

static inline bool opt_given(const options *o, option_id id) { return o->value[id].given; }

static inline int64_t opt_whole(const options *o, option_id id, int64_t otherwise)
{
    return o->value[id].given ? o->value[id].whole : otherwise;
}

static inline double opt_real(const options *o, option_id id, double otherwise)
{
    return o->value[id].given ? o->value[id].real : otherwise;
}

static inline const char *opt_text(const options *o, option_id id)
{
    return o->value[id].given ? o->value[id].text : NULL;
}

#endif
