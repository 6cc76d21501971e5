/* cli/conversation.h - the messages of a conversation, and how far a session has read them. */
#ifndef LNT_CLI_CONVERSATION_H
#define LNT_CLI_CONVERSATION_H

#include <stdbool.h>

#include "cli/text_buffer.h"
#include "linnet/model.h"

typedef struct conversation { /* begins zeroed */
    lnt_message *message;     /* [count]; the system's, if any, is the first */
    size_t count;
    text_buffer fed; /* what the session has read: by the template, and from `answer` on the answer */
    size_t answer;
} conversation;

/* Each of the first three gives EXIT_OK, or one sentence and EXIT_FAILED. */

int conversation_add(conversation *c, const char *role, const char *content);
int conversation_set_system(conversation *c, const char *content); /* "": none */
/* As the note of a session, which conversation_read takes. */
int conversation_note(const conversation *c, text_buffer *out);
/* false: it is not a conversation's, or memory is short; c is as it was. */
bool conversation_read(conversation *c, const char *note);

void conversation_drop_last(conversation *c);
void conversation_forget(conversation *c); /* all but the system's message */
void conversation_unread(conversation *c); /* the session is a new one */
void conversation_close(conversation *c);

/* What is left to read of `text` [bytes], in which the template has the conversation now; NULL: it does not
 * begin with what was read.  Space around the answer may differ: templates trim it. */
const char *conversation_rest(const conversation *c, const char *text, size_t bytes);

#endif
