/* model/tokenizer/steps.h - the normalizer, pre_tokenizer and decoder of a tokenizer.json become steps of a
 * codec. */
#ifndef LNT_MODEL_TOKENIZER_STEPS_H
#define LNT_MODEL_TOKENIZER_STEPS_H

#include "io/json.h"
#include "model/tokenizer/inside.h"

/* What a JSON value says; of another type, or none: the default. */
lnt_text lnt_json_text_of(const lnt_json_node *node);            /* of no string: text NULL */
lnt_text lnt_json_text_in(const lnt_json_node *node, const char *key);
bool lnt_json_flag_in(const lnt_json_node *node, const char *key, bool otherwise);
bool lnt_json_is_there(const lnt_json_node *node);               /* neither missing nor null */

/* node: of the root, may be missing or null.  Each is refused by its name where it is not known. */
lnt_status lnt_read_normalizer(lnt_codec *codec, const lnt_json_node *node);
lnt_status lnt_read_pre_tokenizer(lnt_codec *codec,
                                  const lnt_json_node *node); /* sets codec->bpe.byte_level */
lnt_status lnt_read_decoder(lnt_codec *codec, const lnt_json_node *node);

/* A split at what a pattern finds, appended to codec->cut, which has room. */
lnt_status lnt_add_split(lnt_codec *codec, const char *pattern, lnt_behaviour behaviour, bool invert);
/* GPT-2's words; one character of punctuation as BERT cuts it. */
extern const char lnt_pattern_gpt2[], lnt_pattern_punctuation[];

#endif
