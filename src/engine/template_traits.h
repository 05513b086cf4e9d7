/* template_traits.h - what a chat template can read, found out by rendering small conversations
 * with it. chat_adapt.h uses it. Threads: plain values. */
#ifndef ENGINE_TEMPLATE_TRAITS_H
#define ENGINE_TEMPLATE_TRAITS_H

#include "radish.h"

#include "model/model_text.h"

/* Roles as templates tell them apart: "developer" counts as the system, "function" as a tool, any
 * other as the user. */
enum template_role { TEMPLATE_SYSTEM, TEMPLATE_USER, TEMPLATE_ASSISTANT, TEMPLATE_TOOL };
enum { TEMPLATE_ROLES = TEMPLATE_TOOL + 1 };

enum template_content {
    TEMPLATE_AS_GIVEN, /* it reads both a text and a list of parts, or nothing is known */
    TEMPLATE_TEXT,     /* it reads a text only: parts are joined */
    TEMPLATE_PARTS     /* it reads parts only: a text becomes one part */
};

struct template_traits {
    enum template_content content[TEMPLATE_ROLES];
    bool has_developer;      /* it knows the role "developer" */
    bool has_null_content;   /* beside tool calls: null stays null; else it becomes "" */
    bool has_text_arguments; /* of tool calls: JSON in a string; else a mapping */
};

/* Renders some twenty conversations of one to three messages. text without a template gives zeroes.
 * E_NOMEM only. */
enum radish_status template_traits_find(const struct model_text *text,
                                        struct template_traits *traits_out,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

enum template_role template_role_find(const char *name);

#endif
