/* openai_messages.h - the conversation of a chat request, checked and put into the form that chat
 * templates expect. Owns nothing; the JSON text it makes is the caller's. Threads: any. */
#ifndef SERVER_OPENAI_MESSAGES_H
#define SERVER_OPENAI_MESSAGES_H

#include "base/json.h"

enum { MESSAGES_MARKER_BYTES = 64 };

struct openai_conversation {
    char *json; /* [len] variables for radish_render(); caller frees with free() */
    size_t len;
    /* With continue_final_message: a string put behind the final message's content. The rendered
     * text ends where it appears, and it must appear exactly once. Else "". */
    char marker[MESSAGES_MARKER_BYTES];
};

/* Reads messages, tools, tool_choice, documents, add_generation_prompt, continue_final_message and
 * chat_template_kwargs. What is normalised: roles become lower case and "developer" "system"; a
 * null content becomes ""; arguments of tool calls, JSON in a string, become an object. */
enum radish_status openai_conversation_read(yyjson_val *root,
                                            struct openai_conversation *conversation_out,
                                            struct radish_error *err) RADISH_CHECK_RESULT;

/* Cuts text[0..*len) in front of the marker. E_TEMPLATE when it is not there exactly once. */
enum radish_status openai_marker_cut(const char *marker, const char *text, size_t *len,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

#endif
