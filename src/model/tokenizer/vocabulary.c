/* model/tokenizer/vocabulary.c - a codec from the metadata of a GGUF file.
 *
 * GGUF names the way words are cut (tokenizer.ggml.pre) where tokenizer.json has the expressions; which these
 * are is llama.cpp's convention, as is how it writes the pieces of BERT and what is usual where a flag is not
 * said. */
#include <string.h>

#include "io/file.h"
#include "model/tokenizer/steps.h"

enum token_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

static int type_of(const lnt_vocabulary *v, size_t token) { return v->type ? v->type[token] : NORMAL; }

static const char *text_of(lnt_text t) { return t.text ? t.text : ""; }

/* ---- how words are cut --------------------------------------------------------------------------- */

#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+"
#define TITLED "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*"
#define PATHS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

enum { PATTERNS_MOST = 4 };

static const char of_llama3[] = ENDINGS WORDS "\\p{N}{1,3}" OTHERS;
static const char of_qwen2[] = ENDINGS WORDS "\\p{N}" OTHERS;
static const char of_gpt4o[] = CASED ENDINGS "?|" TITLED ENDINGS "?|\\p{N}{1,3}" PATHS;
static const char of_tekken[] = CASED "|" TITLED "|\\p{N}" PATHS;

/* Applied in turn to what the one before has made. */
static const struct {
    const char *name;
    const char *pattern[PATTERNS_MOST];
    bool ignore_merges, add_bos;
} ways[] = {
    { "default", { "[\\p{P}$+<=>^~|]+", lnt_pattern_gpt2, "\\p{N}+", "[0-9][0-9][0-9]" }, false, false },
    { "gpt-2", { lnt_pattern_gpt2 }, false, false },
    { "gpt2", { lnt_pattern_gpt2 }, false, false },
    { "phi-2", { lnt_pattern_gpt2 }, false, false },
    { "olmo", { lnt_pattern_gpt2 }, false, false },
    { "mpt", { lnt_pattern_gpt2 }, false, false },
    { "roberta-bpe", { lnt_pattern_gpt2 }, false, true },
    { "llama-bpe", { of_llama3 }, true, true },
    { "llama3", { of_llama3 }, true, true },
    { "llama-v3", { of_llama3 }, true, true },
    { "falcon3", { of_llama3 }, true, false },
    { "dbrx", { of_llama3 }, false, false },
    { "smaug-bpe", { of_llama3 }, false, false },
    { "qwen2", { of_qwen2 }, false, false },
    { "deepseek-r1-qwen", { of_qwen2 }, false, false },
    { "stablelm2", { of_qwen2 }, false, false },
    { "megrez", { of_qwen2 }, false, false },
    { "smollm", { "\\p{N}", lnt_pattern_gpt2 }, false, false },
    { "starcoder", { "\\p{N}", lnt_pattern_gpt2 }, false, false },
    { "refact", { "\\p{N}", lnt_pattern_gpt2 }, false, false },
    { "command-r", { "\\p{N}", lnt_pattern_gpt2 }, false, false },
    { "codeshell", { "\\p{N}", lnt_pattern_gpt2 }, false, false },
    { "exaone", { "\\p{N}", lnt_pattern_gpt2 }, false, false },
    { "tekken", { of_tekken }, true, true },
    { "gpt-4o", { of_gpt4o }, false, false },
    { "llama4", { of_gpt4o }, false, false },
};

static lnt_status choose_way(lnt_codec *codec, const lnt_vocabulary *v, bool *add_bos)
{
    const size_t count = sizeof ways / sizeof ways[0];
    size_t i = 0;
    while (v->pre.bytes && i < count && !lnt_text_is(v->pre, ways[i].name)) i++;
    if (i == count)
        return lnt_fail(codec->ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT
                        ": tokenizer: the pre-tokenizer '%.*s' is not known; there are gpt-2, llama-bpe, "
                        "qwen2, smollm, tekken, gpt-4o and those like them",
                        codec->path, (int)(v->pre.bytes < 60 ? v->pre.bytes : 60), v->pre.text);
    codec->cut = lnt_pool_take(&codec->pool, (PATTERNS_MOST + 1) * sizeof *codec->cut);
    if (!codec->cut) return LNT_ERR_MEMORY;
    if (v->add_space_prefix == LNT_SAID_YES) codec->cut[codec->cuts++].kind = LNT_CUT_PREFIX;
    codec->bpe.ignore_merges = ways[i].ignore_merges;
    *add_bos = ways[i].add_bos;
    lnt_status status = LNT_OK;
    for (int k = 0; !status && k < PATTERNS_MOST && ways[i].pattern[k]; k++)
        status = lnt_add_split(codec, ways[i].pattern[k], LNT_CUT_ISOLATED, false);
    return status;
}

/* ---- what all have ------------------------------------------------------------------------------- */

/* The tokens that are looked for in a text as they are: those of control, and those that users added. */
static lnt_status add_tokens(lnt_codec *codec, const lnt_vocabulary *v)
{
    lnt_added *to = &codec->added[0];
    size_t count = 0;
    for (size_t i = 0; i < v->count; i++)
        count += type_of(v, i) == CONTROL || type_of(v, i) == USER_DEFINED || type_of(v, i) == UNKNOWN;
    to->token = lnt_pool_take(&codec->pool, count * sizeof *to->token);
    if (!to->token) return LNT_ERR_MEMORY;
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < v->count; i++) {
        const int type = type_of(v, i);
        if (type != CONTROL && type != USER_DEFINED && type != UNKNOWN) continue;
        lnt_added_token *t = &to->token[to->count++];
        t->token = (int32_t)i;
        t->special = codec->vocab.special[i] = type != USER_DEFINED;
        status = lnt_pool_text(&codec->pool, v->token[i].text, v->token[i].bytes, &t->text);
    }
    return status ? status : lnt_added_open(&codec->pool, to);
}

static lnt_status put_framing(lnt_codec *codec, int32_t token, bool before)
{
    int32_t **list = before ? &codec->before : &codec->after;
    if (token == LNT_NO_TOKEN) return LNT_OK;
    *list = lnt_pool_take(&codec->pool, sizeof **list);
    if (!*list) return LNT_ERR_MEMORY;
    **list = token;
    *(before ? &codec->befores : &codec->afters) = 1;
    return LNT_OK;
}

static lnt_status frame(lnt_codec *codec, const lnt_vocabulary *v, bool bos, bool eos)
{
    const bool begins = v->add_bos == LNT_UNSAID ? bos : v->add_bos == LNT_SAID_YES;
    const bool ends = v->add_eos == LNT_UNSAID ? eos : v->add_eos == LNT_SAID_YES;
    const lnt_status status = begins ? put_framing(codec, codec->role[LNT_ROLE_BOS], true) : LNT_OK;
    return !status && ends ? put_framing(codec, codec->role[LNT_ROLE_EOS], false) : status;
}

static void take_roles(lnt_codec *codec, const lnt_vocabulary *v)
{
    const int64_t said[LNT_ROLES] = { v->bos,     v->eos,      v->unknown, v->separator,
                                      v->padding, v->classify, v->mask };
    for (int i = 0; i < LNT_ROLES; i++) lnt_codec_set_role(codec, (lnt_codec_role)i, said[i]);
}

/* The role's token where the file did not say it. */
static void usual_role(lnt_codec *codec, lnt_codec_role role, int64_t token)
{
    if (codec->role[role] == LNT_NO_TOKEN) lnt_codec_set_role(codec, role, token);
}

/* SentencePiece finds neither its bytes nor what frames a text by their spelling in it. */
static lnt_status take_spellings(lnt_codec *codec, const lnt_vocabulary *v, bool twice)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < v->count; i++) {
        const int type = type_of(v, i), byte = lnt_byte_token(v->token[i]);
        status = lnt_vocab_set(&codec->vocab, (int64_t)i, text_of(v->token[i]), v->token[i].bytes);
        if (!status && v->score) codec->vocab.score[i] = (double)v->score[i];
        if (byte >= 0 && (type == BYTE || !v->type)) codec->vocab.byte[byte] = (int32_t)i;
        else if (v->token[i].bytes && type != CONTROL && type != UNKNOWN && !status)
            status = lnt_vocab_index(&codec->vocab, (int32_t)i, twice);
    }
    return status;
}

static lnt_spell *add_spell(lnt_codec *codec, lnt_spell_kind kind)
{
    codec->spell[codec->spells].kind = kind;
    return &codec->spell[codec->spells++];
}

/* ---- the models ---------------------------------------------------------------------------------- */

static lnt_status open_gpt2(lnt_codec *codec, const lnt_vocabulary *v)
{
    bool add_bos = false;
    codec->kind = &lnt_codec_bpe;
    codec->bpe.byte_level = true;
    lnt_status status = choose_way(codec, v, &add_bos);
    for (size_t i = 0; !status && i < v->count; i++) {
        const bool found = type_of(v, i) == NORMAL || type_of(v, i) == UNUSED || type_of(v, i) == BYTE;
        status = lnt_byte_level_set(&codec->vocab, (int64_t)i, v->token[i], found);
    }
    if (!status) status = lnt_bpe_open(codec, v->merges);
    for (size_t i = 0; !status && i < v->merges; i++) status = lnt_bpe_merge_line(codec, i, v->merge[i]);
    if (!status) status = lnt_bpe_close_letters(codec);
    if (status) return status;
    take_roles(codec, v);
    return frame(codec, v, add_bos, false);
}

/* Spaces as U+2581, one more before a text; bytes for what is no token. */
static lnt_status open_llama(lnt_codec *codec, const lnt_vocabulary *v)
{
    const lnt_text mark = { LNT_LOW_BLOCK, 3 }, space = { " ", 1 };
    const bool prefix = v->add_space_prefix != LNT_SAID_NO;
    codec->kind = &lnt_codec_sentencepiece;
    if (!v->score)
        return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: a model 'llama' without scores", codec->path);
    lnt_status status = take_spellings(codec, v, false);
    codec->normal = lnt_pool_take(&codec->pool, 2 * sizeof *codec->normal);
    codec->spell = lnt_pool_take(&codec->pool, 3 * sizeof *codec->spell);
    if (!status && (!codec->normal || !codec->spell)) status = LNT_ERR_MEMORY;
    if (status) return status;
    lnt_bpe_find_mark(codec, mark);
    if (prefix) codec->normal[codec->normals++] = (lnt_normal){ .kind = LNT_NORMAL_PREPEND, .to = mark };
    codec->normal[codec->normals++] = (lnt_normal){ .kind = LNT_NORMAL_REPLACE, .from = space, .to = mark };
    *add_spell(codec, LNT_SPELL_REPLACE) =
        (lnt_spell){ .kind = LNT_SPELL_REPLACE, .from = mark, .to = space };
    add_spell(codec, LNT_SPELL_BYTES);
    if (prefix) *add_spell(codec, LNT_SPELL_WHOLE_STRIP) =
        (lnt_spell){ .kind = LNT_SPELL_WHOLE_STRIP, .from = space, .start = 1 };
    take_roles(codec, v);
    usual_role(codec, LNT_ROLE_BOS, 1);
    usual_role(codec, LNT_ROLE_EOS, 2);
    usual_role(codec, LNT_ROLE_UNKNOWN, 0);
    codec->unknown = codec->role[LNT_ROLE_UNKNOWN];
    return frame(codec, v, true, false);
}

static lnt_status open_t5(lnt_codec *codec, const lnt_vocabulary *v)
{
    const lnt_text mark = { LNT_LOW_BLOCK, 3 }, two = { "  ", 2 };
    const bool prefix = v->add_space_prefix != LNT_SAID_NO;
    codec->kind = &lnt_codec_unigram;
    lnt_charsmap *map = lnt_pool_take(&codec->pool, sizeof *map);
    codec->normal = lnt_pool_take(&codec->pool, 3 * sizeof *codec->normal);
    codec->cut = lnt_pool_take(&codec->pool, 1 * sizeof *codec->cut);
    codec->spell = lnt_pool_take(&codec->pool, 2 * sizeof *codec->spell);
    lnt_status status = map && codec->normal && codec->cut && codec->spell ? LNT_OK : LNT_ERR_MEMORY;
    if (!status && v->charsmap.bytes) {
        status = lnt_unicode_check(codec->ctx, codec->path);
        if (!status) status = lnt_charsmap_open(&codec->pool, codec->path, v->charsmap, map);
        codec->normal[codec->normals++] = (lnt_normal){ .kind = LNT_NORMAL_CHARSMAP, .map = map };
    }
    if (!status && v->remove_extra_whitespaces == LNT_SAID_YES) {
        codec->normal[codec->normals++] =
            (lnt_normal){ .kind = LNT_NORMAL_STRIP, .left = true, .right = true };
        lnt_normal *runs = &codec->normal[codec->normals++];
        *runs = (lnt_normal){ .kind = LNT_NORMAL_REPLACE, .from = two, .to = { " ", 1 } };
        status = lnt_regex_open(codec->ctx, codec->path, (lnt_text){ " {2,}", 5 }, &runs->regex);
    }
    if (!status) status = take_spellings(codec, v, true);
    if (status) return status;
    codec->cut[codec->cuts++] = (lnt_cut){ .kind = LNT_CUT_METASPACE, .literal = mark, .apart = false,
                                           .scheme = prefix ? LNT_PREPEND_ALWAYS : LNT_PREPEND_NEVER };
    *add_spell(codec, LNT_SPELL_METASPACE) =
        (lnt_spell){ .kind = LNT_SPELL_METASPACE, .from = mark, .drop_first = prefix };
    if (codec->vocab.byte[0] != LNT_NO_TOKEN) add_spell(codec, LNT_SPELL_BYTES);
    codec->unigram.byte_fallback = codec->vocab.byte[0] != LNT_NO_TOKEN;
    take_roles(codec, v);
    usual_role(codec, LNT_ROLE_EOS, 1);
    for (size_t i = 0; i < v->count; i++)
        if (type_of(v, i) == UNKNOWN) usual_role(codec, LNT_ROLE_UNKNOWN, (int64_t)i);
    codec->unknown = codec->role[LNT_ROLE_UNKNOWN];
    status = lnt_unigram_open(codec);
    return status ? status : frame(codec, v, false, true);
}

/* A file has the beginning of a word as U+2581 and then it, and what goes on within one as it is. */
static lnt_status set_piece(lnt_codec *codec, const lnt_vocabulary *v, size_t token)
{
    const lnt_text t = { text_of(v->token[token]), v->token[token].bytes };
    const bool begins = t.bytes >= 3 && memcmp(t.text, LNT_LOW_BLOCK, 3) == 0;
    const bool framed = t.bytes && t.text[0] == '[' && t.text[t.bytes - 1] == ']';
    if (begins) return lnt_vocab_set(&codec->vocab, (int64_t)token, t.text + 3, t.bytes - 3);
    if (v->type ? v->type[token] != NORMAL : framed)
        return lnt_vocab_set(&codec->vocab, (int64_t)token, t.text, t.bytes);
    lnt_chars piece = { 0 };
    lnt_status status = lnt_chars_put(codec->ctx, &piece, "##", 2);
    if (!status) status = lnt_chars_put(codec->ctx, &piece, t.text, t.bytes);
    if (!status) status = lnt_vocab_set(&codec->vocab, (int64_t)token, piece.text, piece.count);
    lnt_chars_free(codec->ctx, &piece);
    return status;
}

static lnt_status cut_as_bert(lnt_codec *codec)
{
    static const lnt_normal_kind kinds[] = { LNT_NORMAL_CLEAN, LNT_NORMAL_CHINESE, LNT_NORMAL_ACCENTS,
                                             LNT_NORMAL_LOWER };
    codec->normal = lnt_pool_take(&codec->pool, 4 * sizeof *codec->normal);
    codec->cut = lnt_pool_take(&codec->pool, 2 * sizeof *codec->cut);
    codec->spell = lnt_pool_take(&codec->pool, sizeof *codec->spell);
    if (!codec->normal || !codec->cut || !codec->spell) return LNT_ERR_MEMORY;
    for (int i = 0; i < 4; i++) codec->normal[codec->normals++].kind = kinds[i];
    *add_spell(codec, LNT_SPELL_WORDPIECE) =
        (lnt_spell){ .kind = LNT_SPELL_WORDPIECE, .from = codec->wordpiece.prefix, .clean_up = true };
    lnt_status status = lnt_unicode_check(codec->ctx, codec->path);
    if (!status) status = lnt_add_split(codec, "\\s", LNT_CUT_REMOVED, false);
    return status ? status : lnt_add_split(codec, lnt_pattern_punctuation, LNT_CUT_ISOLATED, false);
}

static lnt_status open_bert(lnt_codec *codec, const lnt_vocabulary *v)
{
    lnt_status status = LNT_OK;
    codec->kind = &lnt_codec_wordpiece;
    codec->wordpiece = (lnt_wordpiece){ .prefix = { "##", 2 }, .most = 100 };
    for (size_t i = 0; !status && i < v->count; i++) status = set_piece(codec, v, i);
    if (!status) status = lnt_codec_index_all(codec, false);
    if (!status) status = cut_as_bert(codec);
    if (status) return status;
    take_roles(codec, v);
    usual_role(codec, LNT_ROLE_UNKNOWN, lnt_vocab_find(&codec->vocab, "[UNK]", 5));
    usual_role(codec, LNT_ROLE_CLASSIFY, lnt_vocab_find(&codec->vocab, "[CLS]", 5));
    usual_role(codec, LNT_ROLE_SEPARATOR, lnt_vocab_find(&codec->vocab, "[SEP]", 5));
    usual_role(codec, LNT_ROLE_BOS, codec->role[LNT_ROLE_CLASSIFY]);
    usual_role(codec, LNT_ROLE_EOS, codec->role[LNT_ROLE_SEPARATOR]);
    codec->unknown = codec->role[LNT_ROLE_UNKNOWN];
    if (codec->unknown == LNT_NO_TOKEN)
        return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: a model 'bert' without a token [UNK]", codec->path);
    status = put_framing(codec, codec->role[LNT_ROLE_CLASSIFY], true);
    return status ? status : put_framing(codec, codec->role[LNT_ROLE_SEPARATOR], false);
}

lnt_status lnt_codec_open_vocabulary(lnt_ctx *ctx, const lnt_vocabulary *from, lnt_codec **out)
{
    static const struct {
        const char *name;
        lnt_status (*open)(lnt_codec *codec, const lnt_vocabulary *v);
    } models[] = { { "gpt2", open_gpt2 }, { "llama", open_llama }, { "t5", open_t5 }, { "bert", open_bert } };
    int i = 0;
    *out = NULL;
    while (i < 4 && !lnt_text_is(from->model, models[i].name)) i++;
    if (i == 4)
        return lnt_fail(
            ctx, LNT_ERR_UNSUPPORTED,
            LNT_FILE_FMT ": tokenizer: the model '%.*s' is not known; there are gpt2, llama, t5 and bert",
            from->path, (int)(from->model.bytes < 60 ? from->model.bytes : 60), text_of(from->model));
    if (!from->count)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tokenizer: it has no tokens", from->path);
    lnt_codec *codec;
    lnt_status status = lnt_codec_begin(ctx, from->path, &codec);
    if (status) return status;
    status = lnt_vocab_open(&codec->pool, codec->path, from->count, &codec->vocab);
    if (!status) status = models[i].open(codec, from);
    if (!status) status = add_tokens(codec, from);
    if (status) lnt_codec_close(codec);
    else *out = codec;
    return status;
}
