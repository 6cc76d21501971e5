/* cli/option_table.c - every option: its kind, its bounds or choices, the commands that take it, its help. */
#include "cli/option_table.h"

#include <math.h>
#include <stdio.h>

#include "cli/study/study.h"
#include "linnet/model.h"

#define MAX_EXTENT (INT64_C(1) << 40) /* what the library takes */

enum {
    SOFTMAX = 1 << LNT_SOFTMAX,
    LINEAR = 1 << LNT_LINEAR,
    TAYLOR = 1 << LNT_TAYLOR,
    CUR = 1 << LNT_CUR,
    HYBRID = 1 << LNT_HYBRID
};
enum {
    SHAPED = CMD_ATTEND | CMD_PLAN | CMD_BENCH, /* commands that describe a problem */
    MODELS = CMD_TRAIN | CMD_EVAL | CMD_GENERATE, /* those that have one */
    TEXTS = CMD_TOKENIZE | CMD_EMBED,
    WRITES = CMD_GENERATE | CMD_CHAT, /* those that write text */
    RUNS = CMD_EVAL | CMD_EMBED | WRITES, /* those that take a model as it is */
    DROPS = SHAPED | RUNS,                /* and put another attention into it */
    EVERY = SHAPED | CMD_INFO | CMD_DEMO | MODELS | TEXTS | CMD_CHAT | CMD_IMPORT
};

static const char *mechanism_choice(int index) { return lnt_mechanism_name((lnt_mechanism)index); }
static const char *map_choice(int index) { return lnt_feature_map_name((lnt_feature_map)index); }

static const char *cache_choice(int index) { return lnt_cache_name((lnt_cache)index); }

static const char *normalize_choice(int index)
{
    return lnt_normalize_name((lnt_normalize)index);
}

static const char *select_choice(int index) { return lnt_select_name((lnt_select)index); }
static const char *pinv_choice(int index) { return lnt_pinv_name((lnt_pinv)index); }
static const char *init_choice(int index) { return lnt_pinv_init_name((lnt_pinv_init)index); }

static const char *activation_choice(int index)
{
    return lnt_activation_name((lnt_activation)index);
}

static const char *dtype_choice(int index)
{
    return lnt_dtype_size((lnt_dtype)index) ? lnt_dtype_name((lnt_dtype)index) : NULL;
}

static const char *model_dtype_choice(int index) /* as lnt_model_save has them; f32 is the first */
{
    return index < 2 ? lnt_dtype_name(index ? LNT_BF16 : LNT_F32) : NULL;
}

static const char *weights_choice(int index) /* as lnt_weights has them */
{
    static const char *const names[] = { "keep", "f32", "bf16", "q8", "q4", NULL };
    return names[index];
}

static const char *pass_choice(int index)
{
    static const char *const names[] = { "forward", "backward", "step", NULL };
    return names[index];
}

static const char *device_choice(int index)
{
    static const char *const names[] = { "cpu", "cuda", NULL };
    return names[index];
}

static const char *align_choice(int index) /* as align_kind has them */
{
    static const char *const names[] = { "end", "begin", NULL };
    return names[index];
}

static const char *far_choice(int index) /* linear is the first */
{
    return index < 2 ? lnt_mechanism_name((lnt_mechanism)(LNT_LINEAR + index)) : NULL;
}

static const char *compare_choice(int index) /* what is exact */
{
    return index == 0 ? lnt_mechanism_name(LNT_SOFTMAX) : NULL;
}

const option_row option_table[OPTION_COUNT] = {
    [OPT_MECHANISM] = { "mechanism", 0, KIND_CHOICE, NULL, DROPS | CMD_TRAIN, .problem = true,
        .choice = mechanism_choice,
        .help = "attention mechanism (of a model: in place of its own)" },
    [OPT_CAUSAL] = { "causal", 0, KIND_FLAG, NULL, SHAPED, .problem = true,
        .help = "query i sees only the keys j <= i + n_k - n_q" },
    [OPT_HEADS] = { "heads", 0, KIND_WHOLE, "H", SHAPED, .problem = true, .min = 1, .max = MAX_EXTENT,
        .help = "number of query heads (8; attend: from Q)" },
    [OPT_KV_HEADS] = { "kv-heads", 0, KIND_WHOLE, "H", SHAPED, .problem = true, .min = 1, .max = MAX_EXTENT,
        .help = "number of key and value heads, a divisor of --heads (as --heads)" },
    [OPT_DIM] = { "dim", 0, KIND_WHOLE, "D", SHAPED, .problem = true, .min = 1, .max = MAX_EXTENT,
        .help = "width of queries and keys (64; attend: from Q)" },
    [OPT_DIM_VALUE] = { "dim-value", 0, KIND_WHOLE, "M", SHAPED, .problem = true, .min = 1, .max = MAX_EXTENT,
        .help = "width of values (as --dim)" },
    [OPT_LENGTH] = { "length", 0, KIND_WHOLE, "N", CMD_PLAN | CMD_BENCH | CMD_EVAL, .problem = true, .min = 0,
        .max = MAX_EXTENT, .help = "tokens in a sequence (4096; eval: 2048)" },
    [OPT_BATCH] = { "batch", 0, KIND_WHOLE, "B", CMD_PLAN | CMD_BENCH | CMD_EVAL, .problem = true, .min = 1,
        .max = MAX_EXTENT, .help = "number of sequences, or images (1; eval: 16)" },
    [OPT_SCALE] = { "scale", 0, KIND_REAL, "X", DROPS, SOFTMAX | TAYLOR | CUR | HYBRID, .problem = true,
        .least = -HUGE_VAL, .help = "factor of the scores q.k (1/sqrt(dim))" },
    [OPT_CACHE] = { "cache", 0, KIND_CHOICE, NULL, CMD_BENCH, SOFTMAX, .problem = true,
        .choice = cache_choice, .help = "how a step has keys and values stored (same)" },
    [OPT_SESSION_CACHE] = { "cache", 0, KIND_CHOICE, NULL, CMD_EVAL | WRITES, .choice = cache_choice,
        .help = "how softmax stores keys and values; same: f32 (same; of a saved session its own)" },
    [OPT_FEATURE_MAP] = { "feature-map", 0, KIND_CHOICE, NULL, DROPS, LINEAR | HYBRID, .problem = true,
        .choice = map_choice, .help = "map applied to q and k (elu1)" },
    [OPT_FEATURES] = { "features", 0, KIND_WHOLE, "R", DROPS, LINEAR | HYBRID, .problem = true, .min = 1,
        .max = MAX_EXTENT, .help = "width of the maps fourier and positive (2 D)" },
    [OPT_EPS] = { "eps", 0, KIND_REAL, "X", DROPS, LINEAR, .problem = true, .least = 0,
        .help = "number added to the denominator (1e-6)" },
    [OPT_DECAY] = { "decay", 0, KIND_DECAYS, "G[,G...]", SHAPED, LINEAR | HYBRID, .problem = true,
        .help = "state decay per token, one number or one per kv head" },
    [OPT_COMPENSATED] = { "compensated", 0, KIND_FLAG, NULL, DROPS, LINEAR | TAYLOR, .problem = true,
        .help = "compensated sums: no error builds up over many tokens" },
    [OPT_TERMS] = { "terms", 0, KIND_WHOLE, "P", DROPS, TAYLOR | HYBRID, .problem = true, .min = 1,
        .max = MAX_TERMS, .help = "terms of e^x, up to 32 (4; taylorshift, hybrid: 3)" },
    [OPT_COEFFICIENTS] = { "coefficients", 0, KIND_COEFFICIENTS, "taylor|fit|a0,a1,...", DROPS,
        TAYLOR | HYBRID, .problem = true, .help = "1/p!, the best fit to e^x, or these numbers (taylor)" },
    [OPT_SIGMA] = { "sigma", 0, KIND_REAL, "X", DROPS, TAYLOR | HYBRID, .problem = true, .least = 0,
        .help = "deviation of the scores for fit (attend: measured; else 1)" },
    [OPT_NORMALIZE] = { "normalize", 0, KIND_CHOICE, NULL, DROPS, TAYLOR, .problem = true,
        .choice = normalize_choice,
        .help = "scale q and k to length 1; --scale is then 1 unless given (none)" },
    [OPT_TEMPERATURE] = { "temperature", 0, KIND_TEMPERATURES, "T[,T...]", SHAPED, TAYLOR, .problem = true,
        .help = "factor of the normalised q, one number or one per head (1)" },
    [OPT_CENTER] = { "center", 0, KIND_TEXT, "none|mean|FILE.npy", SHAPED, TAYLOR | HYBRID, .problem = true,
        .help = "subtract this from every key; file: [kv heads, dim] (none)" },
    [OPT_OUTPUT_NORM] = { "output-norm", 0, KIND_FLAG, NULL, DROPS, TAYLOR, .problem = true,
        .help = "multiply the output by sqrt(keys seen / dim)" },
    [OPT_LANDMARKS] = { "landmarks", 0, KIND_WHOLE, "M", DROPS, CUR, .problem = true, .min = 1,
        .max = 1 << 20, .help = "number of landmarks (64); up to as many tokens the result is exact" },
    [OPT_SELECT] = { "select", 0, KIND_CHOICE, NULL, DROPS, CUR, .problem = true, .choice = select_choice,
        .help = "how landmark tokens are chosen (step)" },
    [OPT_EMBED_COLUMN] = { "embed-column", 0, KIND_WHOLE, "C", DROPS, CUR, .problem = true,
        .max = MAX_EXTENT, .help = "the element that --select embed compares (0)" },
    [OPT_SEPARATE_INDICES] = { "separate-indices", 0, KIND_FLAG, NULL, DROPS, CUR, .problem = true,
        .help = "choose the landmarks of q and of k separately" },
    [OPT_PIN] = { "pin", 0, KIND_PINS, "T[,T...]", DROPS, CUR, .problem = true,
        .help = "tokens that are always landmarks" },
    [OPT_NO_ROW_COPY] = { "no-row-copy", 0, KIND_FLAG, NULL, DROPS, CUR, .problem = true,
        .help = "approximate the rows of landmarks too" },
    [OPT_PINV] = { "pinv", 0, KIND_CHOICE, NULL, DROPS, CUR, .problem = true, .choice = pinv_choice,
        .help = "how the matrix U of the landmarks is inverted (iterate)" },
    [OPT_PINV_ITERATIONS] = { "pinv-iterations", 0, KIND_WHOLE, "K", DROPS, CUR, .problem = true, .min = 1,
        .max = 64, .help = "iterations of --pinv iterate (6)" },
    [OPT_PINV_INIT] = { "pinv-init", 0, KIND_CHOICE, NULL, DROPS, CUR, .problem = true,
        .choice = init_choice, .help = "start of the iterations (norms)" },
    [OPT_RIDGE] = { "ridge", 0, KIND_REAL, "X", DROPS, CUR, .problem = true, .least = 1e-12,
        .help = "regularisation of --pinv ridge, relative to |U|_F^2 (1e-5)" },
    [OPT_ACTIVATION] = { "activation", 0, KIND_CHOICE, NULL, DROPS, CUR, .problem = true,
        .choice = activation_choice, .help = "function from scores to weights (softmax)" },
    [OPT_INDICES_OUT] = { "indices-out", 0, KIND_TEXT, "FILE", CMD_ATTEND, CUR,
        .help = "save the landmark tokens (.npy, [B,H,2,M])" },
    [OPT_WINDOW] = { "window", 0, KIND_WHOLE, "W", DROPS, SOFTMAX | HYBRID, .problem = true, .min = 1,
        .max = MAX_EXTENT, .help = "attend to this many last keys alone (all; hybrid: 128)" },
    [OPT_CAP] = { "cap", 0, KIND_REAL, "X", DROPS, SOFTMAX, .problem = true, .least = 0,
        .help = "soft cap: a score x becomes X tanh(x/X) (none)" },
    [OPT_ALIBI] = { "alibi", 0, KIND_FLAG, NULL, SHAPED, SOFTMAX, .problem = true,
        .help = "take ALiBi's slope times the distance from each score" },
    [OPT_ALIGN] = { "align", 0, KIND_CHOICE, NULL, CMD_ATTEND, SOFTMAX, .choice = align_choice,
        .help = "whether the last query and key stand together, or the first (end)" },
    [OPT_MASK] = { "mask", 0, KIND_TEXT, "FILE.npy", CMD_ATTEND, SOFTMAX,
        .help = "mask of the scores; see above" },
    [OPT_SINK] = { "sink", 0, KIND_WHOLE, "S", DROPS, HYBRID, .problem = true, .max = MAX_EXTENT,
        .help = "softmax also attends to this many first keys (0)" },
    [OPT_FAR] = { "far", 0, KIND_CHOICE, NULL, DROPS, HYBRID, .problem = true, .choice = far_choice,
        .help = "mechanism for all other keys, with most of its options (taylor)" },
    [OPT_SEED] = { "seed", 0, KIND_SEED, "S", SHAPED | MODELS | CMD_CHAT, .problem = true,
        .help = "seed of all random numbers (0; train: from the config)" },
    [OPT_DTYPE] = { "dtype", 0, KIND_CHOICE, NULL, SHAPED, .problem = true, .choice = dtype_choice,
        .help = "type to compute in (f32; attend: that of Q)" },
    [OPT_MODEL_DTYPE] = { "dtype", 0, KIND_CHOICE, NULL, CMD_TRAIN, .choice = model_dtype_choice,
        .help = "type of the weights in the model file (from the config, or f32)" },
    [OPT_PASS] = { "pass", 0, KIND_CHOICE, NULL, CMD_PLAN | CMD_BENCH, .problem = true, .choice = pass_choice,
        .help = "what to run; a step adds and reads one token (forward)" },
    [OPT_STUDY] = { "study", 0, KIND_CHOICE, "NAME", CMD_BENCH, .choice = study_name,
        .help = "repeat an experiment of the papers; see above" },
    [OPT_ALGORITHM] = { "algorithm", 0, KIND_TEXT, "NAME", SHAPED, .problem = true,
        .help = "use this algorithm instead of the planner's choice" },
    [OPT_CHUNK] = { "chunk", 0, KIND_WHOLE, "C", CMD_ATTEND, .min = 1, .max = MAX_EXTENT,
        .help = "stream the input through the state, C tokens at a time; needs --causal" },
    [OPT_DEVICE] = { "device", 0, KIND_CHOICE, NULL, SHAPED | CMD_INFO, .choice = device_choice,
        .help = "where to compute (cpu)" },
    [OPT_THREADS] = { "threads", 0, KIND_WHOLE, "T", EVERY, .min = 1, .max = 4096,
        .help = "number of threads (OMP_NUM_THREADS, or all cores)" },
    [OPT_NO_CALIBRATE] = { "no-calibrate", 0, KIND_FLAG, NULL, CMD_PLAN,
        .help = "use built-in rates instead of timing this machine" },
    [OPT_CALIBRATION] = { "calibration", 0, KIND_TEXT, "FILE", SHAPED, .problem = true,
        .help = "choose by the measurement kept in FILE; made if there is none" },
    [OPT_STATE_IN] = { "state-in", 0, KIND_TEXT, "FILE", CMD_ATTEND,
        .help = "state that holds the tokens before the first key (.safetensors)" },
    [OPT_STATE_OUT] = { "state-out", 0, KIND_TEXT, "FILE", CMD_ATTEND,
        .help = "save the state after the last key (.safetensors)" },
    [OPT_COMPARE] = { "compare", 0, KIND_CHOICE, NULL, CMD_ATTEND, .choice = compare_choice,
        .help = "measure the error against exact softmax, and say whether to trust it" },
    [OPT_OUTPUT] = { "output", 'o', KIND_TEXT, "FILE", CMD_ATTEND | CMD_GENERATE | CMD_EMBED | CMD_IMPORT,
        .help = "file for the result (.npy; images: .png; import: .safetensors)" },
    [OPT_SVG] = { "svg", 0, KIND_TEXT, "FILE", CMD_BENCH | CMD_DEMO,
        .help = "also draw a figure with gnuplot (bench: needs --study)" },
    [OPT_TASK] = { "task", 0, KIND_TEXT, "NAME", CMD_TRAIN | CMD_BENCH, .problem = true,
        .help = "task to learn; bench: for --study training (copy)" },
    [OPT_MODEL] = { "model", 0, KIND_TEXT, "FILE", CMD_BENCH, .problem = true,
        .help = "model that a --study measures (one with random weights)" },
    [OPT_CONFIG] = { "config", 0, KIND_TEXT, "FILE", CMD_TRAIN | CMD_BENCH, .problem = true,
        .help = "JSON file with settings of model, training and task (the task's own)" },
    [OPT_DATA] = { "data", 0, KIND_TEXT, "PATH", MODELS | CMD_BENCH, .problem = true,
        .help = "data of the task; eval: a text or images; generate: images to complete" },
    [OPT_OUT] = { "out", 0, KIND_TEXT, "DIR", CMD_TRAIN,
        .help = "directory for the model, its checkpoint, log and loss curve" },
    [OPT_STEPS] = { "steps", 0, KIND_WHOLE, "N", CMD_TRAIN, .min = 1, .max = 1000000000,
        .help = "total number of steps (from the config)" },
    [OPT_RESUME] = { "resume", 0, KIND_FLAG, NULL, CMD_TRAIN,
        .help = "continue from the checkpoint in --out" },
    [OPT_HELD_OUT] = { "held-out", 0, KIND_FLAG, NULL, CMD_EVAL,
        .help = "text: use only the part that training leaves out" },
    [OPT_BATCHES] = { "batches", 0, KIND_WHOLE, "N", CMD_EVAL, .min = 1, .max = 1000000000,
        .help = "maximum number of batches (all; tasks that make their examples: 20)" },
    [OPT_TEXT] = { "text", 0, KIND_PROMPT, "TEXT", TEXTS, .help = "the text" },
    [OPT_FILE] = { "file", 0, KIND_TEXT, "FILE", TEXTS,
        .help = "file with the text (-: standard input); embed: a text a line, or images" },
    [OPT_TOKEN_IDS] = { "token-ids", 0, KIND_TEXT, "IDS.npy", CMD_EVAL,
        .help = "tokens to run through the model, int32 or int64 [n] or [B,n]; needs --logits" },
    [OPT_LOGITS] = { "logits", 0, KIND_TEXT, "L.npy", CMD_EVAL,
        .help = "save the logits of --token-ids, f32 [n, vocabulary] or [B, n, vocabulary], or of images" },
    [OPT_LAST] = { "last", 0, KIND_WHOLE, "K", CMD_EVAL, .min = 1, .max = MAX_EXTENT,
        .help = "save only the logits of the last K tokens (all)" },
    [OPT_WEIGHTS] = { "weights", 0, KIND_CHOICE, NULL, CMD_IMPORT, .choice = weights_choice,
        .help = "numbers of the matrices in the file (keep)" },
    [OPT_TOKENIZER] = { "tokenizer", 0, KIND_TEXT, "FILE", CMD_EVAL | WRITES | CMD_TOKENIZE | CMD_IMPORT,
        .help = "tokenizer of a model of llama2.c (tokenizer.bin, or the only tok*.bin beside it)" },
    [OPT_PROMPT] = { "prompt", 0, KIND_PROMPT, "TEXT", CMD_GENERATE,
        .help = "text to continue (none: a new text)" },
    [OPT_PROMPT_FILE] = { "prompt-file", 0, KIND_TEXT, "FILE", CMD_GENERATE,
        .help = "file with the text to continue (-: standard input); it is not repeated" },
    [OPT_TOKENS] = { "tokens", 0, KIND_WHOLE, "N", WRITES | CMD_BENCH, .problem = true, .min = 0,
        .max = MAX_EXTENT, .help = "number of tokens to write (400; chat: 1024 an answer; bench: 100000)" },
    [OPT_SAMPLE_TEMPERATURE] = { "temperature", 0, KIND_REAL, "T", WRITES, .least = 0,
        .help = "sampling temperature; 0 takes the likeliest token (1; chat: 0.4)" },
    [OPT_TOP_K] = { "top-k", 0, KIND_WHOLE, "K", WRITES, .min = 1, .max = MAX_EXTENT,
        .help = "sample among the K likeliest tokens (all)" },
    [OPT_TOP_P] = { "top-p", 0, KIND_REAL, "P", WRITES, .least = 0,
        .help = "sample among the likeliest tokens of total probability P (1)" },
    [OPT_MIN_P] = { "min-p", 0, KIND_REAL, "P", WRITES, .least = 0,
        .help = "sample among tokens at least P times as likely as the likeliest (0; chat: 0.1)" },
    [OPT_REPETITION_PENALTY] = { "repetition-penalty", 0, KIND_REAL, "X", WRITES, .least = 0.01,
        .help = "divide the logits of recent tokens by X, multiply those below 0 (1)" },
    [OPT_PENALTY_TOKENS] = { "penalty-tokens", 0, KIND_WHOLE, "N", WRITES, .min = 1, .max = 1024,
        .help = "how many recent tokens the penalty counts (256)" },
    [OPT_STOP] = { "stop", 0, KIND_STOPS, "TEXT", WRITES,
        .help = "end before this text, which is not printed; may be repeated" },
    [OPT_SYSTEM] = { "system", 0, KIND_PROMPT, "TEXT", CMD_CHAT,
        .help = "what the model is told before the conversation (the template's own)" },
    [OPT_FOREVER] = { "forever", 0, KIND_FLAG, NULL, CMD_GENERATE,
        .help = "write until interrupted, or until learned positions end" },
    [OPT_SAVE_STATE] = { "save-state", 0, KIND_TEXT, "FILE", WRITES,
        .help = "save the session at the end (.safetensors)" },
    [OPT_LOAD_STATE] = { "load-state", 0, KIND_TEXT, "FILE", WRITES,
        .help = "continue a saved session" },
    [OPT_IMAGES] = { "images", 0, KIND_WHOLE, "N", CMD_GENERATE, .min = 1, .max = 4096,
        .help = "number of images to draw (36), or with --data to complete (6)" },
    [OPT_EACH] = { "each", 0, KIND_WHOLE, "N", CMD_GENERATE, .min = 1, .max = 64,
        .help = "completions of each image, with --data (4)" },
    [OPT_FIRST] = { "first", 0, KIND_WHOLE, "N", CMD_GENERATE, .max = MAX_EXTENT,
        .help = "first test image to complete, with --data (0)" },
    [OPT_KEEP] = { "keep", 0, KIND_REAL, "X", CMD_GENERATE, .least = 0,
        .help = "share of each image that is given, with --data (0.5)" },
    [OPT_JSON] = { "json", 0, KIND_FLAG, NULL, EVERY,
        .help = "print one JSON object per line instead of text" },
    [OPT_HELP] = { "help", 'h', KIND_FLAG, NULL, EVERY, .help = "print this text" },
};

const char *option_choice(option_id id, int index) { return option_table[id].choice(index); }

const char *option_join_choices(const option_row *row, const char *separator, char *text,
                                size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; row->choice(i) && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? separator : "",
                                 row->choice(i));
    return text;
}

/* "--dim", with room in a few rotating buffers so that one sentence can name several. */
const char *option_name(option_id id)
{
    static char names[4][32];
    static unsigned next = 0;
    char *text = names[next++ % 4];
    if (option_table[id].letter && id != OPT_HELP)
        snprintf(text, sizeof names[0], "-%c/--%s", option_table[id].letter, option_table[id].name);
    else
        snprintf(text, sizeof names[0], "--%s", option_table[id].name);
    return text;
}
