/* model/tokenizer/steps.c - see steps.h. */
#include "model/tokenizer/steps.h"

#include <string.h>

#include "io/file.h"

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}"

enum { STEPS_OF_ONE = 4 }; /* what one of a file becomes, at most */

const char lnt_pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Hugging Face goes by Unicode 8: what is punctuation since then is none to it. */
const char lnt_pattern_punctuation[] =
    "(?![\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{166d}\\x{1b7d}-\\x{1b7e}\\x{2e43}-\\x{2e4f}"
    "\\x{2e52}-\\x{2e5d}\\x{10ead}\\x{10f55}-\\x{10f59}\\x{10f86}-\\x{10f89}\\x{111c9}"
    "\\x{1144b}-\\x{1144f}\\x{1145a}-\\x{1145b}\\x{1145d}\\x{11660}-\\x{1166c}\\x{116b9}\\x{1183b}"
    "\\x{11944}-\\x{11946}\\x{119e2}\\x{11a3f}-\\x{11a46}\\x{11a9a}-\\x{11a9c}\\x{11a9e}-\\x{11aa2}"
    "\\x{11c41}-\\x{11c45}\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}\\x{11fff}\\x{12ff1}-\\x{12ff2}"
    "\\x{16e97}-\\x{16e9a}\\x{16fe2}\\x{1e95e}-\\x{1e95f}])"
    "[\\p{P}!-/:-@\\[-`{-~]";

/* ---- JSON ---------------------------------------------------------------------------------------- */

lnt_text lnt_json_text_of(const lnt_json_node *node)
{
    if (!node || node->type != LNT_JSON_STRING) return (lnt_text){ NULL, 0 };
    return (lnt_text){ node->text, strlen(node->text) };
}

lnt_text lnt_json_text_in(const lnt_json_node *node, const char *key)
{
    return lnt_json_text_of(lnt_json_member(node, key));
}

bool lnt_json_flag_in(const lnt_json_node *node, const char *key, bool otherwise)
{
    const lnt_json_node *n = lnt_json_member(node, key);
    return n && n->type == LNT_JSON_TRUE ? true : n && n->type == LNT_JSON_FALSE ? false : otherwise;
}

bool lnt_json_is_there(const lnt_json_node *node) { return node && node->type != LNT_JSON_NULL; }

static lnt_status refuse(const lnt_codec *codec, const char *what, lnt_text type)
{
    return lnt_fail(codec->ctx, LNT_ERR_UNSUPPORTED, LNT_FILE_FMT ": tokenizer: the %s '%.*s' is not known",
                    codec->path, what, (int)(type.bytes < 60 ? type.bytes : 60), type.text ? type.text : "");
}

static lnt_status broken(const lnt_codec *codec, const char *what, const char *wants)
{
    return lnt_fail(codec->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tokenizer: %s %s", codec->path, what, wants);
}

/* The steps in a sequence of sequences; a step that is none counts as one. */
static size_t count_steps(const lnt_json_node *node, const char *list)
{
    const lnt_json_node *of = lnt_json_member(node, list);
    size_t count = 0;
    if (!lnt_text_is(lnt_json_text_in(node, "type"), "Sequence") || !of) return 1;
    for (const lnt_json_node *n = of->child; n; n = n->next) count += count_steps(n, list);
    return count;
}

typedef lnt_status reader(lnt_codec *codec, const lnt_json_node *node, lnt_text type);

/* Each step in turn, sequences in sequence; nesting ends where that of JSON does. */
static lnt_status walk(lnt_codec *codec, const lnt_json_node *node, const char *list, const char *what,
                       reader *read)
{
    const lnt_text type = lnt_json_text_in(node, "type");
    lnt_status status = LNT_OK;
    if (!type.text) return broken(codec, what, "must be an object with a type");
    if (!lnt_text_is(type, "Sequence")) return read(codec, node, type);
    const lnt_json_node *of = lnt_json_member(node, list);
    if (!of || of->type != LNT_JSON_ARRAY) return broken(codec, what, "of type Sequence must have a list");
    for (const lnt_json_node *n = of->child; !status && n; n = n->next)
        status = walk(codec, n, list, what, read);
    return status;
}

/* {"String":s} or {"Regex":r} */
static lnt_status read_pattern(lnt_codec *codec, const lnt_json_node *node, lnt_regex **regex,
                               lnt_text *literal)
{
    const lnt_json_node *pattern = lnt_json_member(node, "pattern");
    const lnt_text plain = pattern ? lnt_json_text_in(pattern, "String") : (lnt_text){ NULL, 0 };
    const lnt_text expression = pattern ? lnt_json_text_in(pattern, "Regex") : (lnt_text){ NULL, 0 };
    if (expression.text) return lnt_regex_open(codec->ctx, codec->path, expression, regex);
    if (!plain.bytes) return broken(codec, "a pattern", "must be a String that is not empty, or a Regex");
    return lnt_pool_text(&codec->pool, plain.text, plain.bytes, literal);
}

/* ---- normalizers --------------------------------------------------------------------------------- */

static lnt_normal *add_normal(lnt_codec *codec, lnt_normal_kind kind)
{
    lnt_normal *out = &codec->normal[codec->normals++];
    out->kind = kind;
    return out;
}

static lnt_status read_base64(lnt_codec *codec, lnt_text text, lnt_text *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *to = lnt_pool_take(&codec->pool, text.bytes / 4 * 3 + 4);
    uint32_t bits = 0;
    int held = 0;
    if (!to) return LNT_ERR_MEMORY;
    *out = (lnt_text){ to, 0 };
    for (size_t i = 0; i < text.bytes && text.text[i] != '='; i++) {
        const char *digit = memchr(digits, text.text[i], 64);
        if (!digit) return broken(codec, "precompiled_charsmap", "must be in base64");
        bits = bits << 6 | (uint32_t)(digit - digits);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        to[out->bytes++] = (char)(unsigned char)(bits >> held & 0xff);
    }
    return LNT_OK;
}

static lnt_status read_charsmap(lnt_codec *codec, const lnt_json_node *node)
{
    lnt_text blob;
    const lnt_text text = lnt_json_text_in(node, "precompiled_charsmap");
    lnt_charsmap *map = lnt_pool_take(&codec->pool, sizeof *map);
    lnt_status status = map ? lnt_unicode_check(codec->ctx, codec->path) : LNT_ERR_MEMORY;
    if (!text.bytes) return status; /* an empty map changes nothing */
    if (!status) status = read_base64(codec, text, &blob);
    if (!status) status = lnt_charsmap_open(&codec->pool, codec->path, blob, map);
    if (!status) add_normal(codec, LNT_NORMAL_CHARSMAP)->map = map;
    return status;
}

static lnt_status read_replace(lnt_codec *codec, const lnt_json_node *node)
{
    lnt_normal *step = add_normal(codec, LNT_NORMAL_REPLACE);
    const lnt_text content = lnt_json_text_in(node, "content");
    const lnt_status status = read_pattern(codec, node, &step->regex, &step->from);
    return status ? status : lnt_pool_text(&codec->pool, content.text, content.bytes, &step->to);
}

static lnt_status read_bert(lnt_codec *codec, const lnt_json_node *node)
{
    const bool lower = lnt_json_flag_in(node, "lowercase", true);
    if (lnt_json_flag_in(node, "clean_text", true)) add_normal(codec, LNT_NORMAL_CLEAN);
    if (lnt_json_flag_in(node, "handle_chinese_chars", true)) add_normal(codec, LNT_NORMAL_CHINESE);
    if (lnt_json_flag_in(node, "strip_accents", lower)) add_normal(codec, LNT_NORMAL_ACCENTS);
    if (lower) add_normal(codec, LNT_NORMAL_LOWER);
    return lnt_unicode_check(codec->ctx, codec->path);
}

static lnt_status read_normal(lnt_codec *codec, const lnt_json_node *node, lnt_text type)
{
    static const char *const forms[] = { "NFC", "NFD", "NFKC", "NFKD" };
    for (int i = 0; i < 4; i++) {
        if (!lnt_text_is(type, forms[i])) continue;
        add_normal(codec, LNT_NORMAL_FORM)->form = (lnt_unicode_form)i;
        return lnt_unicode_check(codec->ctx, codec->path);
    }
    if (lnt_text_is(type, "Lowercase") || lnt_text_is(type, "StripAccents")) {
        add_normal(codec, lnt_text_is(type, "Lowercase") ? LNT_NORMAL_LOWER : LNT_NORMAL_MARKS);
        return lnt_unicode_check(codec->ctx, codec->path);
    }
    if (lnt_text_is(type, "Strip")) {
        lnt_normal *step = add_normal(codec, LNT_NORMAL_STRIP);
        step->left = lnt_json_flag_in(node, "strip_left", true);
        step->right = lnt_json_flag_in(node, "strip_right", true);
        return LNT_OK;
    }
    if (lnt_text_is(type, "Prepend")) {
        const lnt_text text = lnt_json_text_in(node, "prepend");
        return lnt_pool_text(&codec->pool, text.text, text.bytes, &add_normal(codec, LNT_NORMAL_PREPEND)->to);
    }
    if (lnt_text_is(type, "Replace")) return read_replace(codec, node);
    if (lnt_text_is(type, "BertNormalizer")) return read_bert(codec, node);
    if (lnt_text_is(type, "Precompiled")) return read_charsmap(codec, node);
    return refuse(codec, "normalizer", type);
}

lnt_status lnt_read_normalizer(lnt_codec *codec, const lnt_json_node *node)
{
    if (!lnt_json_is_there(node)) return LNT_OK;
    const size_t count = count_steps(node, "normalizers");
    codec->normal = lnt_pool_take(&codec->pool, STEPS_OF_ONE * count * sizeof *codec->normal);
    return codec->normal ? walk(codec, node, "normalizers", "normalizer", read_normal) : LNT_ERR_MEMORY;
}

/* ---- pre-tokenizers ------------------------------------------------------------------------------ */

static lnt_cut *add_cut(lnt_codec *codec, lnt_cut_kind kind)
{
    lnt_cut *out = &codec->cut[codec->cuts++];
    out->kind = kind;
    return out;
}

lnt_status lnt_add_split(lnt_codec *codec, const char *pattern, lnt_behaviour behaviour, bool invert)
{
    lnt_cut *cut = add_cut(codec, LNT_CUT_SPLIT);
    cut->behaviour = behaviour;
    cut->invert = invert;
    return lnt_regex_open(codec->ctx, codec->path, (lnt_text){ pattern, strlen(pattern) }, &cut->regex);
}

static lnt_status read_behaviour(lnt_codec *codec, const lnt_json_node *node, lnt_behaviour *out)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous" };
    const lnt_text name = lnt_json_text_in(node, "behavior");
    if (!name.text) return LNT_OK;
    for (int i = 0; i < 5; i++)
        if (lnt_text_is(name, names[i])) return *out = (lnt_behaviour)i, LNT_OK;
    return refuse(codec, "behavior", name);
}

static lnt_status read_split(lnt_codec *codec, const lnt_json_node *node)
{
    lnt_cut *cut = add_cut(codec, LNT_CUT_SPLIT);
    cut->behaviour = LNT_CUT_ISOLATED;
    cut->invert = lnt_json_flag_in(node, "invert", false);
    const lnt_status status = read_behaviour(codec, node, &cut->behaviour);
    return status ? status : read_pattern(codec, node, &cut->regex, &cut->literal);
}

static lnt_status read_delimiter(lnt_codec *codec, const lnt_json_node *node)
{
    const lnt_text text = lnt_json_text_in(node, "delimiter");
    lnt_cut *cut = add_cut(codec, LNT_CUT_SPLIT);
    if (!text.bytes) return broken(codec, "the delimiter of CharDelimiterSplit", "must be a character");
    return lnt_pool_text(&codec->pool, text.text, text.bytes, &cut->literal); /* and removed */
}

static lnt_status read_scheme(lnt_codec *codec, const lnt_json_node *node, lnt_scheme *out)
{
    const lnt_text scheme = lnt_json_text_in(node, "prepend_scheme");
    *out = lnt_json_flag_in(node, "add_prefix_space", true) ? LNT_PREPEND_ALWAYS : LNT_PREPEND_NEVER;
    if (!scheme.text) return LNT_OK;
    if (lnt_text_is(scheme, "always")) *out = LNT_PREPEND_ALWAYS;
    else if (lnt_text_is(scheme, "first")) *out = LNT_PREPEND_FIRST;
    else if (lnt_text_is(scheme, "never")) *out = LNT_PREPEND_NEVER;
    else return refuse(codec, "prepend_scheme", scheme);
    return LNT_OK;
}

static lnt_status read_mark(lnt_codec *codec, const lnt_json_node *node, lnt_text *out)
{
    const lnt_text mark = lnt_json_text_in(node, "replacement");
    if (mark.text && (!mark.bytes || mark.bytes != lnt_utf8_bytes(mark.text)))
        return broken(codec, "the replacement of Metaspace", "must be a character");
    return lnt_pool_text(&codec->pool, mark.text ? mark.text : LNT_LOW_BLOCK, mark.text ? mark.bytes : 3,
                         out);
}

static lnt_status read_metaspace(lnt_codec *codec, const lnt_json_node *node)
{
    lnt_cut *cut = add_cut(codec, LNT_CUT_METASPACE);
    cut->apart = lnt_json_flag_in(node, "split", true);
    const lnt_status status = read_scheme(codec, node, &cut->scheme);
    return status ? status : read_mark(codec, node, &cut->literal);
}

static lnt_status read_byte_level(lnt_codec *codec, const lnt_json_node *node)
{
    codec->bpe.byte_level = true;
    if (lnt_json_flag_in(node, "add_prefix_space", true)) add_cut(codec, LNT_CUT_PREFIX);
    if (!lnt_json_flag_in(node, "use_regex", true)) return LNT_OK;
    return lnt_add_split(codec, lnt_pattern_gpt2, LNT_CUT_ISOLATED, false);
}

static lnt_status read_cut(lnt_codec *codec, const lnt_json_node *node, lnt_text type)
{
    static const char white[] = "\\s", words[] = "[" WORD "]+|[^" WORD "\\s]+";
    lnt_behaviour behaviour = LNT_CUT_ISOLATED;
    if (codec->bpe.byte_level)
        return lnt_fail(codec->ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT ": tokenizer: a pre_tokenizer behind ByteLevel", codec->path);
    if (lnt_text_is(type, "ByteLevel")) return read_byte_level(codec, node);
    if (lnt_text_is(type, "Split")) return read_split(codec, node);
    if (lnt_text_is(type, "Metaspace")) return read_metaspace(codec, node);
    if (lnt_text_is(type, "CharDelimiterSplit")) return read_delimiter(codec, node);
    if (lnt_text_is(type, "Whitespace")) return lnt_add_split(codec, words, LNT_CUT_REMOVED, true);
    if (lnt_text_is(type, "WhitespaceSplit")) return lnt_add_split(codec, white, LNT_CUT_REMOVED, false);
    if (lnt_text_is(type, "Digits")) {
        const bool alone = lnt_json_flag_in(node, "individual_digits", false);
        return lnt_add_split(codec, "\\p{N}", alone ? LNT_CUT_ISOLATED : LNT_CUT_CONTIGUOUS, false);
    }
    if (lnt_text_is(type, "Punctuation")) {
        const lnt_status status = read_behaviour(codec, node, &behaviour);
        return status ? status : lnt_add_split(codec, lnt_pattern_punctuation, behaviour, false);
    }
    if (lnt_text_is(type, "BertPreTokenizer")) {
        const lnt_status status = lnt_add_split(codec, white, LNT_CUT_REMOVED, false);
        return status ? status : lnt_add_split(codec, lnt_pattern_punctuation, LNT_CUT_ISOLATED, false);
    }
    return refuse(codec, "pre_tokenizer", type);
}

lnt_status lnt_read_pre_tokenizer(lnt_codec *codec, const lnt_json_node *node)
{
    if (!lnt_json_is_there(node)) return LNT_OK;
    const size_t count = count_steps(node, "pretokenizers");
    codec->cut = lnt_pool_take(&codec->pool, STEPS_OF_ONE * count * sizeof *codec->cut);
    return codec->cut ? walk(codec, node, "pretokenizers", "pre_tokenizer", read_cut) : LNT_ERR_MEMORY;
}

/* ---- decoders ------------------------------------------------------------------------------------ */

static lnt_status add_spell(lnt_codec *codec, lnt_spell_kind kind, lnt_spell **out)
{
    const bool last = codec->spells && codec->spell[codec->spells - 1].kind >= LNT_SPELL_BYTES;
    if (last && kind <= codec->spell[codec->spells - 1].kind)
        return broken(codec, "decoder:", "a step behind ByteFallback or Fuse that is of single tokens");
    *out = &codec->spell[codec->spells++];
    (*out)->kind = kind;
    return LNT_OK;
}

static lnt_status read_replacing(lnt_codec *codec, const lnt_json_node *node)
{
    lnt_spell *s = NULL;
    const lnt_text content = lnt_json_text_in(node, "content");
    lnt_status status = add_spell(codec, LNT_SPELL_REPLACE, &s);
    if (!status) status = read_pattern(codec, node, &s->regex, &s->from);
    return status ? status : lnt_pool_text(&codec->pool, content.text, content.bytes, &s->to);
}

static size_t number_in(const lnt_json_node *node, const char *key)
{
    const lnt_json_node *n = lnt_json_member(node, key);
    return n && n->type == LNT_JSON_INTEGER && n->integer > 0 ? (size_t)n->integer : 0;
}

/* Behind Fuse it is of the text as a whole; `fused` is in the codec as a step of the last kind that strips
 * nothing. */
static lnt_status read_strip(lnt_codec *codec, const lnt_json_node *node)
{
    const lnt_text content = lnt_json_text_in(node, "content");
    const bool whole = codec->spells && codec->spell[codec->spells - 1].kind == LNT_SPELL_WHOLE_STRIP;
    lnt_spell *s = whole ? &codec->spell[codec->spells - 1] : NULL;
    lnt_status status = whole ? LNT_OK : add_spell(codec, LNT_SPELL_STRIP, &s);
    if (!content.bytes || content.bytes != lnt_utf8_bytes(content.text) || (whole && s->from.bytes))
        return broken(codec, "decoder:", "Strip must have a character, and come once behind Fuse");
    if (!status) status = lnt_pool_text(&codec->pool, content.text, content.bytes, &s->from);
    if (status) return status;
    s->start = number_in(node, "start");
    s->stop = number_in(node, "stop");
    return LNT_OK;
}

static lnt_status read_marked(lnt_codec *codec, const lnt_json_node *node)
{
    lnt_spell *s = NULL;
    lnt_scheme scheme;
    lnt_status status = add_spell(codec, LNT_SPELL_METASPACE, &s);
    if (!status) status = read_mark(codec, node, &s->from);
    if (!status) status = read_scheme(codec, node, &scheme);
    if (!status) s->drop_first = scheme != LNT_PREPEND_NEVER;
    return status;
}

static lnt_status read_pieces(lnt_codec *codec, const lnt_json_node *node)
{
    lnt_spell *s = NULL;
    const lnt_text prefix = lnt_json_text_in(node, "prefix");
    lnt_status status = add_spell(codec, LNT_SPELL_WORDPIECE, &s);
    if (!status)
        status = lnt_pool_text(&codec->pool, prefix.text ? prefix.text : "##", prefix.text ? prefix.bytes : 2,
                               &s->from);
    if (!status) s->clean_up = lnt_json_flag_in(node, "cleanup", true);
    return status;
}

static lnt_status read_spell(lnt_codec *codec, const lnt_json_node *node, lnt_text type)
{
    lnt_spell *s = NULL;
    if (lnt_text_is(type, "ByteLevel") && codec->bpe.byte_level) return LNT_OK; /* its spellings are bytes */
    if (codec->bpe.byte_level) return refuse(codec, "decoder of byte-level tokens", type);
    if (lnt_text_is(type, "ByteFallback")) return add_spell(codec, LNT_SPELL_BYTES, &s);
    if (lnt_text_is(type, "Fuse")) return add_spell(codec, LNT_SPELL_WHOLE_STRIP, &s);
    if (lnt_text_is(type, "Strip")) return read_strip(codec, node);
    if (lnt_text_is(type, "Replace")) return read_replacing(codec, node);
    if (lnt_text_is(type, "Metaspace")) return read_marked(codec, node);
    if (lnt_text_is(type, "WordPiece")) return read_pieces(codec, node);
    return refuse(codec, "decoder", type);
}

lnt_status lnt_read_decoder(lnt_codec *codec, const lnt_json_node *node)
{
    lnt_spell *s = NULL;
    const size_t count = lnt_json_is_there(node) ? count_steps(node, "decoders") : 1;
    codec->spell = lnt_pool_take(&codec->pool, count * sizeof *codec->spell);
    if (!codec->spell) return LNT_ERR_MEMORY;
    if (lnt_json_is_there(node)) return walk(codec, node, "decoders", "decoder", read_spell);
    return codec->bpe.byte_level ? LNT_OK : add_spell(codec, LNT_SPELL_APART, &s);
}
