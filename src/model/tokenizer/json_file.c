/* model/tokenizer/json_file.c - a codec from Hugging Face's tokenizer.json, and from the files beside it that
 * say which tokens are bos, eos and the like. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "model/tokenizer/steps.h"

static lnt_status broken(const lnt_codec *codec, const char *sentence)
{
    return lnt_fail(codec->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tokenizer: %s", codec->path, sentence);
}

/* ---- the vocabulary ------------------------------------------------------------------------------ */

/* One more than the highest token.  Numbers may have holes, but their table may not be made of holes. */
static lnt_status count_tokens(const lnt_codec *codec, const lnt_json_node *vocab, const lnt_json_node *added,
                               size_t *count)
{
    const size_t entries = vocab->count + (added ? added->count : 0);
    const bool listed = vocab->type == LNT_JSON_ARRAY;
    int64_t highest = listed ? (int64_t)vocab->count - 1 : -1;
    for (const lnt_json_node *n = listed ? NULL : vocab->child; n; n = n->next)
        if (n->type == LNT_JSON_INTEGER && n->integer > highest) highest = n->integer;
    for (const lnt_json_node *n = added ? added->child : NULL; n; n = n->next) {
        const lnt_json_node *id = lnt_json_member(n, "id");
        if (id && id->type == LNT_JSON_INTEGER && id->integer > highest) highest = id->integer;
    }
    *count = (size_t)(highest + 1);
    if (highest < 0) return broken(codec, "it has no tokens");
    if ((uint64_t)highest / 8 <= entries + 1024) return LNT_OK;
    return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": tokenizer: a token has the number %lld, and there are %zu", codec->path,
                    (long long)highest, entries);
}

/* {"token":number, ...} */
static lnt_status read_numbers(lnt_codec *codec, const lnt_json_node *vocab)
{
    lnt_status status = LNT_OK;
    for (const lnt_json_node *n = vocab->child; !status && n; n = n->next) {
        const lnt_text key = { n->key, strlen(n->key) };
        if (n->type != LNT_JSON_INTEGER) return broken(codec, "a token whose number is no integer");
        if (codec->bpe.byte_level) status = lnt_byte_level_set(&codec->vocab, n->integer, key, true);
        else status = lnt_vocab_set(&codec->vocab, n->integer, key.text, key.bytes);
    }
    return !status && !codec->bpe.byte_level ? lnt_codec_index_all(codec, false) : status;
}

/* [["token",score], ...] */
static lnt_status read_scores(lnt_codec *codec, const lnt_json_node *vocab)
{
    int64_t token = 0;
    lnt_status status = LNT_OK;
    for (const lnt_json_node *n = vocab->child; !status && n; n = n->next, token++) {
        const lnt_text text = lnt_json_text_of(n->type == LNT_JSON_ARRAY ? n->child : NULL);
        const lnt_json_node *score = text.text ? n->child->next : NULL;
        if (!score || (score->type != LNT_JSON_REAL && score->type != LNT_JSON_INTEGER))
            return broken(codec, "a token that is not a pair of text and score");
        status = lnt_vocab_set(&codec->vocab, token, text.text, text.bytes);
        if (!status) codec->vocab.score[token] = score->real;
    }
    return status ? status : lnt_codec_index_all(codec, true); /* as trainers write them */
}

/* ---- models -------------------------------------------------------------------------------------- */

static lnt_status read_merges(lnt_codec *codec, const lnt_json_node *merges)
{
    if (!merges || merges->type != LNT_JSON_ARRAY) return broken(codec, "BPE without a list of merges");
    size_t rank = 0;
    lnt_status status = lnt_bpe_open(codec, merges->count);
    for (const lnt_json_node *n = merges->child; !status && n; n = n->next, rank++) {
        const lnt_text left = lnt_json_text_of(n->type == LNT_JSON_ARRAY ? n->child : NULL);
        const lnt_text right = lnt_json_text_of(left.text ? n->child->next : NULL);
        if (right.text) status = lnt_bpe_merge(codec, rank, left, right);
        else if (n->type == LNT_JSON_STRING) status = lnt_bpe_merge_line(codec, rank, lnt_json_text_of(n));
        else status = broken(codec, "a merge that is no pair of tokens");
    }
    return status;
}

static lnt_status read_bpe(lnt_codec *codec, const lnt_json_node *model)
{
    lnt_bpe *b = &codec->bpe;
    const lnt_text prefix = lnt_json_text_in(model, "continuing_subword_prefix");
    const lnt_text suffix = lnt_json_text_in(model, "end_of_word_suffix");
    codec->kind = &lnt_codec_bpe;
    b->ignore_merges = lnt_json_flag_in(model, "ignore_merges", false);
    b->byte_fallback = lnt_json_flag_in(model, "byte_fallback", false);
    b->fuse_unknown = lnt_json_flag_in(model, "fuse_unk", false);
    if (b->byte_level && (prefix.bytes || suffix.bytes))
        return broken(codec, "byte-level BPE with a prefix or suffix of words");
    lnt_status status = lnt_pool_text(&codec->pool, prefix.text, prefix.bytes, &b->prefix);
    if (!status) status = lnt_pool_text(&codec->pool, suffix.text, suffix.bytes, &b->suffix);
    if (!status) status = read_merges(codec, lnt_json_member(model, "merges"));
    if (status || b->byte_level) return status ? status : lnt_bpe_close_letters(codec);
    lnt_bpe_find_mark(codec, (lnt_text){ LNT_LOW_BLOCK, 3 });
    return LNT_OK;
}

static lnt_status read_unigram(lnt_codec *codec, const lnt_json_node *model)
{
    const lnt_json_node *unknown = lnt_json_member(model, "unk_id");
    codec->kind = &lnt_codec_unigram;
    codec->unigram.byte_fallback = lnt_json_flag_in(model, "byte_fallback", false);
    if (lnt_json_is_there(unknown)) {
        if (unknown->type != LNT_JSON_INTEGER || unknown->integer < 0 ||
            (size_t)unknown->integer >= codec->vocab.count)
            return broken(codec, "unk_id must be the number of a token");
        codec->unknown = (int32_t)unknown->integer;
    }
    return lnt_unigram_open(codec);
}

static lnt_status read_wordpiece(lnt_codec *codec, const lnt_json_node *model)
{
    const lnt_json_node *most = lnt_json_member(model, "max_input_chars_per_word");
    const lnt_text prefix = lnt_json_text_in(model, "continuing_subword_prefix");
    codec->kind = &lnt_codec_wordpiece;
    codec->wordpiece.most = 100;
    if (lnt_json_is_there(most)) {
        if (most->type != LNT_JSON_INTEGER || most->integer < 0 || most->integer > 10000)
            return broken(codec, "max_input_chars_per_word must be 0 to 10000");
        codec->wordpiece.most = (size_t)most->integer;
    }
    if (codec->unknown == LNT_NO_TOKEN) return broken(codec, "WordPiece without a token for what is unknown");
    return lnt_pool_text(&codec->pool, prefix.text ? prefix.text : "##", prefix.text ? prefix.bytes : 2,
                         &codec->wordpiece.prefix);
}

/* The model's kind; files of old do not say it. */
static lnt_text kind_of(const lnt_json_node *model, const lnt_json_node *vocab)
{
    const lnt_text type = lnt_json_text_in(model, "type");
    if (type.text) return type;
    if (lnt_json_member(model, "merges")) return (lnt_text){ "BPE", 3 };
    if (vocab->type == LNT_JSON_ARRAY) return (lnt_text){ "Unigram", 7 };
    return (lnt_text){ "WordPiece", 9 };
}

static lnt_status read_model(lnt_codec *codec, const lnt_json_node *model, const lnt_json_node *added)
{
    const lnt_json_node *vocab = model ? lnt_json_member(model, "vocab") : NULL;
    if (!vocab || (vocab->type != LNT_JSON_OBJECT && vocab->type != LNT_JSON_ARRAY))
        return broken(codec, "it has no model with a vocab");
    const lnt_text kind = kind_of(model, vocab), unknown = lnt_json_text_in(model, "unk_token");
    const bool bpe = lnt_text_is(kind, "BPE"), unigram = lnt_text_is(kind, "Unigram");
    if (!bpe && !unigram && !lnt_text_is(kind, "WordPiece"))
        return lnt_fail(codec->ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT
                        ": tokenizer: the model '%.60s' is not known; there are BPE, Unigram and WordPiece",
                        codec->path, kind.text);
    if (unigram != (vocab->type == LNT_JSON_ARRAY))
        return broken(codec, "the vocab is not that of its model");
    if (codec->bpe.byte_level && !bpe) return broken(codec, "ByteLevel words, and the model is not BPE");
    size_t count = 0;
    lnt_status status = count_tokens(codec, vocab, added, &count);
    if (!status) status = lnt_vocab_open(&codec->pool, codec->path, count, &codec->vocab);
    if (!status) status = unigram ? read_scores(codec, vocab) : read_numbers(codec, vocab);
    if (status) return status;
    if (unknown.text && !unigram) {
        codec->unknown = lnt_vocab_find(&codec->vocab, unknown.text, unknown.bytes);
        if (codec->unknown == LNT_NO_TOKEN) return broken(codec, "unk_token is no token");
    }
    return bpe ? read_bpe(codec, model) : unigram ? read_unigram(codec, model) : read_wordpiece(codec, model);
}

/* ---- added tokens -------------------------------------------------------------------------------- */

/* The spelling as it is looked for in a text that was normalised. */
static lnt_status normalise_added(lnt_codec *codec, lnt_text text, lnt_text *out)
{
    lnt_chars as = { 0 }, spare = { 0 };
    lnt_status status = lnt_chars_put(codec->ctx, &as, text.text, text.bytes);
    if (!status) status = lnt_normalise(codec->ctx, codec->normal, codec->normals, &as, &spare);
    if (!status) status = lnt_pool_text(&codec->pool, as.text, as.count, out);
    lnt_chars_free(codec->ctx, &as);
    lnt_chars_free(codec->ctx, &spare);
    return status;
}

static bool spelled_so(const lnt_codec *codec, int64_t token, lnt_text text)
{
    const lnt_text known = codec->vocab.token[token];
    if (known.bytes == text.bytes && memcmp(known.text, text.text, text.bytes) == 0) return true;
    char bytes[256];
    size_t count;
    return codec->bpe.byte_level && text.bytes <= sizeof bytes && lnt_byte_level_bytes(text, bytes, &count) &&
           count == known.bytes && memcmp(known.text, bytes, count) == 0;
}

static lnt_status read_added_token(lnt_codec *codec, const lnt_json_node *n)
{
    const lnt_json_node *id = lnt_json_member(n, "id");
    const lnt_text text = lnt_json_text_in(n, "content");
    if (!text.text || !id || id->type != LNT_JSON_INTEGER || id->integer < 0)
        return broken(codec, "an added token without its content or id");
    lnt_added *to = &codec->added[lnt_json_flag_in(n, "normalized", false)];
    lnt_added_token *t = &to->token[to->count++];
    lnt_vocab *v = &codec->vocab;
    lnt_status status = LNT_OK;
    if (!v->token[id->integer].text) { /* below the count, which took it in */
        if (codec->bpe.byte_level) status = lnt_byte_level_set(v, id->integer, text, false);
        else status = lnt_vocab_set(v, id->integer, text.text, text.bytes);
    } else if (!spelled_so(codec, id->integer, text)) {
        return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: the added token '%.60s' has the number %lld of another",
                        codec->path, text.text, (long long)id->integer);
    }
    t->token = (int32_t)id->integer;
    t->special = lnt_json_flag_in(n, "special", false);
    t->single_word = lnt_json_flag_in(n, "single_word", false);
    t->lstrip = lnt_json_flag_in(n, "lstrip", false);
    t->rstrip = lnt_json_flag_in(n, "rstrip", false);
    v->special[t->token] = t->special;
    if (status) return status;
    if (to == &codec->added[1]) return normalise_added(codec, text, &t->text);
    return lnt_pool_text(&codec->pool, text.text, text.bytes, &t->text);
}

static lnt_status read_added(lnt_codec *codec, const lnt_json_node *added)
{
    const size_t count = added ? added->count : 0;
    lnt_status status = LNT_OK;
    for (int i = 0; i < 2; i++)
        if (!(codec->added[i].token = lnt_pool_take(&codec->pool, count * sizeof(lnt_added_token))))
            return LNT_ERR_MEMORY;
    for (const lnt_json_node *n = added ? added->child : NULL; !status && n; n = n->next)
        status = read_added_token(codec, n);
    for (int i = 0; !status && i < 2; i++) status = lnt_added_open(&codec->pool, &codec->added[i]);
    return status;
}

/* ---- the frame ----------------------------------------------------------------------------------- */

enum { FRAME_MOST = 64 }; /* tokens before a text, or after it */

static lnt_status put_framing(lnt_codec *codec, const lnt_json_node *id, bool before)
{
    int32_t **list = before ? &codec->before : &codec->after;
    size_t *count = before ? &codec->befores : &codec->afters;
    if (!*list && !(*list = lnt_pool_take(&codec->pool, FRAME_MOST * sizeof **list))) return LNT_ERR_MEMORY;
    if (*count == FRAME_MOST) return broken(codec, "the post_processor puts over 64 tokens on one side");
    if (!id || id->type != LNT_JSON_INTEGER || id->integer < 0 || (uint64_t)id->integer >= codec->vocab.count)
        return broken(codec, "the post_processor has a token that is none");
    (*list)[(*count)++] = (int32_t)id->integer;
    return LNT_OK;
}

/* {"single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[1]}}} */
static lnt_status read_template(lnt_codec *codec, const lnt_json_node *node)
{
    const lnt_json_node *single = lnt_json_member(node, "single");
    const lnt_json_node *known = lnt_json_member(node, "special_tokens");
    bool before = true;
    lnt_status status = LNT_OK;
    if (!single || single->type != LNT_JSON_ARRAY) return broken(codec, "TemplateProcessing without single");
    for (const lnt_json_node *n = single->child; !status && n; n = n->next) {
        const lnt_json_node *special = lnt_json_member(n, "SpecialToken");
        if (!special && !before) return broken(codec, "TemplateProcessing with two texts in single");
        if (!special) {
            before = false;
            continue;
        }
        const lnt_text name = lnt_json_text_in(special, "id");
        const lnt_json_node *entry = name.text && known ? lnt_json_member(known, name.text) : NULL;
        const lnt_json_node *ids = entry ? lnt_json_member(entry, "ids") : NULL;
        if (!ids || !ids->child)
            return broken(codec, "TemplateProcessing names a token that it does not know");
        for (const lnt_json_node *id = ids->child; !status && id; id = id->next)
            status = put_framing(codec, id, before);
    }
    return !status && before ? broken(codec, "TemplateProcessing without a text in single") : status;
}

/* {"sep":["[SEP]",102],"cls":["[CLS]",101]} */
static lnt_status read_cls_sep(lnt_codec *codec, const lnt_json_node *node)
{
    const lnt_json_node *cls = lnt_json_member(node, "cls"), *sep = lnt_json_member(node, "sep");
    const lnt_status status = put_framing(codec, cls && cls->child ? cls->child->next : NULL, true);
    return status ? status : put_framing(codec, sep && sep->child ? sep->child->next : NULL, false);
}

static lnt_status read_frame(lnt_codec *codec, const lnt_json_node *node)
{
    if (!lnt_json_is_there(node)) return LNT_OK;
    const lnt_text type = lnt_json_text_in(node, "type");
    const lnt_json_node *list = lnt_json_member(node, "processors");
    lnt_status status = LNT_OK;
    if (lnt_text_is(type, "Sequence") && list) {
        for (const lnt_json_node *n = list->child; !status && n; n = n->next) status = read_frame(codec, n);
        return status;
    }
    if (lnt_text_is(type, "ByteLevel")) return LNT_OK; /* it moves offsets, which nobody asks for */
    if (codec->before || codec->after) return broken(codec, "two post_processors that add tokens");
    if (lnt_text_is(type, "TemplateProcessing")) return read_template(codec, node);
    if (lnt_text_is(type, "BertProcessing") || lnt_text_is(type, "RobertaProcessing"))
        return read_cls_sep(codec, node);
    return lnt_fail(codec->ctx, LNT_ERR_UNSUPPORTED,
                    LNT_FILE_FMT ": tokenizer: the post_processor '%.60s' is not known", codec->path,
                    type.text ? type.text : "");
}

/* ---- opening ------------------------------------------------------------------------------------- */

static lnt_status read_file(lnt_codec *codec, const lnt_json_node *root)
{
    const lnt_json_node *added = lnt_json_member(root, "added_tokens");
    const lnt_json_node *model = lnt_json_member(root, "model");
    if (added && added->type != LNT_JSON_ARRAY) added = NULL;
    lnt_status status = lnt_read_normalizer(codec, lnt_json_member(root, "normalizer"));
    if (!status) status = lnt_read_pre_tokenizer(codec, lnt_json_member(root, "pre_tokenizer"));
    if (!status) status = read_model(codec, model, added);
    if (!status) status = read_added(codec, added);
    if (!status) status = read_frame(codec, lnt_json_member(root, "post_processor"));
    if (!status) status = lnt_read_decoder(codec, lnt_json_member(root, "decoder"));
    codec->role[LNT_ROLE_UNKNOWN] = codec->unknown;
    return status;
}

lnt_status lnt_codec_open_json(lnt_ctx *ctx, const char *path, const char *json, size_t bytes,
                               lnt_codec **out)
{
    lnt_json document;
    lnt_codec *codec = NULL;
    *out = NULL;
    lnt_status status = lnt_json_parse(ctx, path, NULL, json, bytes, &document);
    if (status) return status;
    status = lnt_codec_begin(ctx, path, &codec);
    if (!status) status = read_file(codec, document.root);
    lnt_json_free(ctx, &document);
    if (status) lnt_codec_close(codec);
    else *out = codec;
    return status;
}

/* ---- a directory --------------------------------------------------------------------------------- */

/* The bytes of a file, *size of them to be released. */
static lnt_status load(lnt_ctx *ctx, const char *path, char **out, size_t *size)
{
    lnt_file_reader file;
    *out = NULL;
    lnt_status status = lnt_file_open(ctx, path, &file);
    if (status) return status;
    if (file.size > LNT_JSON_MAX_BYTES)
        status = lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": JSON of %llu bytes, at most %d", path,
                          (unsigned long long)file.size, LNT_JSON_MAX_BYTES);
    *size = (size_t)file.size;
    if (!status && !(*out = lnt_allocate(ctx, *size, "a tokenizer's file"))) status = LNT_ERR_MEMORY;
    if (!status) status = lnt_file_read(&file, *out, *size);
    lnt_file_close(&file);
    if (status) lnt_release(ctx, *out, *size);
    return status;
}

/* {"bos_token":"<s>" or {"content":"<s>"}, ...}; a role that is known already stays. */
static void take_roles(lnt_codec *codec, const lnt_json_node *root)
{
    static const char *const names[LNT_ROLES] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                                  "pad_token", "cls_token", "mask_token" };
    for (int i = 0; i < LNT_ROLES; i++) {
        const lnt_json_node *n = lnt_json_member(root, names[i]);
        if (n && n->type == LNT_JSON_OBJECT) n = lnt_json_member(n, "content");
        const lnt_text text = lnt_json_text_of(n);
        if (text.text && codec->role[i] == LNT_NO_TOKEN)
            codec->role[i] = lnt_codec_find(codec, text.text, text.bytes);
    }
}

static lnt_status read_roles(lnt_codec *codec, const char *path)
{
    char *text;
    size_t size;
    lnt_json json;
    if (access(path, F_OK) != 0) return LNT_OK;
    lnt_status status = load(codec->ctx, path, &text, &size);
    if (status) return status;
    status = lnt_json_parse(codec->ctx, path, NULL, text, size, &json);
    lnt_release(codec->ctx, text, size);
    if (status) return status;
    take_roles(codec, json.root);
    lnt_json_free(codec->ctx, &json);
    return LNT_OK;
}

lnt_status lnt_codec_open_directory(lnt_ctx *ctx, const char *directory, lnt_codec **out)
{
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json",
                                         "special_tokens_map.json" };
    char path[PATH_MAX], *text;
    size_t size;
    *out = NULL;
    lnt_status status = LNT_OK;
    for (int i = 0; !status && i < 3; i++) {
        const int length = snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        if (length < 0 || (size_t)length >= sizeof path)
            return lnt_fail(ctx, LNT_ERR_FILE, LNT_FILE_FMT ": a path of over %zu bytes", directory,
                            sizeof path - 1);
        if (i) {
            status = read_roles(*out, path);
            continue;
        }
        status = load(ctx, path, &text, &size);
        if (status) return status;
        status = lnt_codec_open_json(ctx, path, text, size, out);
        lnt_release(ctx, text, size);
    }
    if (status) {
        lnt_codec_close(*out);
        *out = NULL;
    }
    return status;
}
