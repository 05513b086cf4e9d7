/* tool_format.h - the ways in which models write tool calls.
 *
 *   hermes    <tool_call>{"name": "f", "arguments": {...}}</tool_call>      Qwen, Hermes, many
 * others llama3    {"name": "f", "parameters": {...}} at the text's start, or behind
 * <|python_tag|>; several with ';' between them mistral   [TOOL_CALLS][{"name": "f", "arguments":
 * {...}}, ...] or, in newer ones, [TOOL_CALLS]f{...} or [TOOL_CALLS]f[ARGS]{...} each
 *
 * Threads: any. */
#ifndef SERVER_TOOL_FORMAT_H
#define SERVER_TOOL_FORMAT_H

#include "radish.h"

enum tool_format { TOOL_FORMAT_NONE, TOOL_FORMAT_HERMES, TOOL_FORMAT_LLAMA3, TOOL_FORMAT_MISTRAL };

enum { TOOL_MARKERS_MAX = 3 };

/* The format of a name, as --tool-call-parser takes it. `template` (NULL = none) decides for
 * "auto". False: no such name. */
bool tool_format_find(const char *name, const char *template, enum tool_format *format_out);

const char *tool_format_name(enum tool_format format);

/* The ids of those markers of a format that are special tokens of the model, at most
 * TOOL_MARKERS_MAX: their text has to reach the parser. Returns the number of them. */
uint32_t tool_format_markers(enum tool_format format, struct radish_model *model,
                             int32_t ids_out[TOOL_MARKERS_MAX]);

#endif
