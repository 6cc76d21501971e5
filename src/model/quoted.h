/* model/quoted.h - special tokens that the messages of a conversation spell, and that must stay text.
 *
 * A template mixes what it writes itself with what people wrote, and a user who writes <|im_end|> must not
 * end a message.  Before it is rendered, every place in a content where a special token is spelled gets a
 * mark behind its first character: a run of U+FDD0, which is no character, longer than any in the contents.
 * Templates pass it on like any other; behind them it is taken out, and its place is where no special token
 * may be (lnt_codec_encode_barred).  A content that spells none is not touched, and its text is cut into
 * tokens as everyone else cuts it. */
#ifndef LNT_MODEL_QUOTED_H
#define LNT_MODEL_QUOTED_H

#include "model/template/template.h"
#include "model/tokenizer/codec.h"

typedef struct lnt_quoted {
    lnt_ctx *ctx;
    size_t run; /* characters of a mark; 0: there is none */
    struct {
        char *text; /* [bytes]; NULL: the content as it was */
        size_t bytes;
    } *copy; /* [count] */
    size_t count;
} lnt_quoted;

/* Puts marked copies in place of contents; they live until lnt_quoted_close. */
lnt_status lnt_quoted_open(lnt_ctx *ctx, const lnt_codec *codec, lnt_chat_message *message, size_t count,
                           lnt_quoted *out);
void lnt_quoted_close(lnt_quoted *q);

/* Takes the marks out of a rendered text of lnt_template_render's, which stays as exactly as large as its
 * memory.  *bar [*bars]: where quoted tokens begin; lnt_release(ctx, *bar, *bars * sizeof **bar). */
lnt_status lnt_quoted_take(const lnt_quoted *q, char **text, size_t *bytes, size_t **bar, size_t *bars);

#endif
