/* openai_messages.h - the conversation of a chat request, checked and put into the form that chat
 * templates expect. Owns nothing; the JSON text it makes is the caller's. Threads: any. */
#ifndef SERVER_OPENAI_MESSAGES_H
#define SERVER_OPENAI_MESSAGES_H

#include "base/json.h"

enum { MESSAGES_MARKER_BYTES = 64 };

/* What one request may hold; templates meet limits of their own before that. */
enum { MESSAGES_MAX = 16384, MESSAGES_TOOLS_MAX = 1024, MESSAGES_DOCUMENTS_MAX = 4096 };

struct openai_conversation {
    char *json; /* [len] variables for radish_render(); caller frees with free() */
    size_t len;
    /* With continue_final_message: a word put, with a space behind it, behind the final message's
     * content. The rendered text ends where it appears, and it must appear exactly once. Else "".
     */
    char marker[MESSAGES_MARKER_BYTES];
};

/* Reads messages, tools, tool_choice, documents, add_generation_prompt, continue_final_message and
 * chat_template_kwargs. What is normalised: roles become lower case, members that are null are left
 * out, but for an assistant's content. What depends on the template (parts, "developer", the form
 * of arguments) is only checked here, and done by radish_render(). */
enum radish_status openai_conversation_read(yyjson_val *root,
                                            struct openai_conversation *conversation_out,
                                            struct radish_error *err) RADISH_CHECK_RESULT;

/* Whether the model is told of tools: there are some, and tool_choice is not "none". */
bool openai_has_tools(yyjson_val *root);

/* Cuts text[0..*len) in front of the marker; where the template has trimmed the content's end (the
 * marker's space is gone), without the white space there. E_TEMPLATE when the marker is not there
 * exactly once. */
enum radish_status openai_marker_cut(const char *marker, const char *text, size_t *len,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

#endif
