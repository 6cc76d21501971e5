/* model/template/fallback.c - the well-known forms of a conversation, for models that bring no template. */
#include <stddef.h>
#include <string.h>

#include "model/template/template.h"

/* Forms without a role for the system put its message before that of the user who speaks first. */
#define SYSTEM_FIRST                                                                             \
    "{%- if messages and messages[0].role == 'system' %}"                                        \
    "{%- set system = messages[0].content | trim %}{% set messages = messages[1:] %}"            \
    "{%- else %}{% set system = '' %}{% endif -%}"

static const struct {
    const char *name, *token; /* a token by which a vocabulary shows that it knows the form */
    const char *text;
} forms[] = {
    { "llama3", "<|start_header_id|>",
      "{{- bos_token }}{% for m in messages %}"
      "{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + "
      "'<|eot_id|>' }}"
      "{%- endfor %}{% if add_generation_prompt %}"
      "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}" },
    { "command-r", "<|START_OF_TURN_TOKEN|>",
      "{{- bos_token }}{% for m in messages %}"
      "{%- set who = {'system': 'SYSTEM', 'assistant': 'CHATBOT'}.get(m.role, 'USER') %}"
      "{{- '<|START_OF_TURN_TOKEN|><|' + who + '_TOKEN|>' + m.content | trim + "
      "'<|END_OF_TURN_TOKEN|>' }}"
      "{%- endfor %}{% if add_generation_prompt %}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' "
      "}}{% endif %}" },
    { "deepseek", "<\xef\xbd\x9cUser\xef\xbd\x9c>",
      "{{- bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{- m.content }}"
      "{%- elif m.role == 'assistant' %}{{- '<\xef\xbd\x9c"
      "Assistant\xef\xbd\x9c>' + m.content + eos_token }}"
      "{%- else %}{{- '<\xef\xbd\x9cUser\xef\xbd\x9c>' + m.content }}{% endif %}{% endfor %}"
      "{%- if add_generation_prompt %}{{- '<\xef\xbd\x9c"
      "Assistant\xef\xbd\x9c>' }}{% endif %}" },
    { "gemma", "<start_of_turn>",
      "{{- bos_token }}" SYSTEM_FIRST "{% for m in messages %}"
      "{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"
      "{%- if loop.first and system %}{{- system + '\n\n' }}{% endif %}{{- m.content | trim + "
      "'<end_of_turn>\n' }}"
      "{%- endfor %}{% if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{% endif %}" },
    { "phi3", "<|assistant|>",
      "{% for m in messages %}{{- '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}"
      "{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{% endif %}" },
    { "chatml", "<|im_start|>",
      "{% for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% "
      "endfor %}"
      "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}" },
    { "mistral", "[INST]",
      "{{- bos_token }}" SYSTEM_FIRST "{% for m in messages %}{% if m.role == 'assistant' %}"
      "{{- ' ' + m.content | trim + eos_token }}{% else %}{{- '[INST] ' }}"
      "{%- if loop.first and system %}{{- system + '\n\n' }}{% endif %}{{- m.content | trim + ' "
      "[/INST]' }}"
      "{%- endif %}{% endfor %}" },
    { "llama2", NULL,
      SYSTEM_FIRST
      "{% for m in messages %}{% if m.role == 'assistant' %}"
      "{{- ' ' + m.content | trim + ' ' + eos_token }}{% else %}{{- bos_token + '[INST] ' }}"
      "{%- if loop.first and system %}{{- '<<SYS>>\n' + system + '\n<</SYS>>\n\n' }}{% endif %}"
      "{{- m.content | trim + ' [/INST]' }}{% endif %}{% endfor %}" },
    { "zephyr", NULL,
      "{% for m in messages %}{{- '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% "
      "endfor %}"
      "{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{% endif %}" },
    { "plain", NULL,
      "{{- bos_token }}{% for m in messages %}{{- m.role | capitalize + ': ' + m.content | trim + "
      "'\n' }}"
      "{%- endfor %}{% if add_generation_prompt %}{{- 'Assistant:' }}{% endif %}" },
};
enum { FORMS = sizeof forms / sizeof forms[0] };

const char *lnt_template_fallback(const char *name)
{
    for (size_t i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0) return forms[i].text;
    return NULL;
}

const char *lnt_template_fallback_name(size_t i) { return i < FORMS ? forms[i].name : NULL; }

const char *lnt_template_guess(bool (*has)(void *vocabulary, const char *token), void *vocabulary)
{
    for (size_t i = 0; i < FORMS; i++)
        if (forms[i].token && has(vocabulary, forms[i].token)) return forms[i].name;
    return forms[FORMS - 1].name;
}
