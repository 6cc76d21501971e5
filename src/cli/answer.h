/* cli/answer.h - a conversation with a model: feeds what it has not read yet and writes its answer. */
#ifndef LNT_CLI_ANSWER_H
#define LNT_CLI_ANSWER_H

#include "cli/conversation.h"
#include "cli/generation.h"

typedef struct chat {
    generation g; /* its counts are those of the last answer */
    conversation talk;
    int64_t most;    /* tokens of an answer */
    bool told_again; /* that the conversation is read again was said */
    bool told_long;  /* so was that it is longer than what the model was trained on */
    int64_t prompt_tokens, tokens; /* of all answers */
    double prompt_seconds, seconds;
} chat;

/* Each gives EXIT_OK, or says one sentence and gives another exit status. */

/* A new session, which has read nothing; the messages stay. */
int chat_restart(chat *c);
/* Answers the last message, the user's.  Where it fails before the answer, or is stopped there, that message
 * is taken back; stopped within, the answer ends there. */
int answer_write(chat *c);

#endif
