/* chat_adapt.h - a conversation in the forms of the API becomes one in the forms that its template
 * reads; and rendering it. Threads: any; nothing is kept. */
#ifndef ENGINE_CHAT_ADAPT_H
#define ENGINE_CHAT_ADAPT_H

#include "engine/template_traits.h"

#include <yyjson.h>

/* Changes the variables of a template (the root of doc, an object) in place:
 *   content     parts joined by a newline, or a text made one part, as the role's traits say; null
 *               of an assistant kept or emptied
 *   role        "developer" becomes "system" where the template has no such role
 *   arguments   of tool calls: a mapping, or JSON in a string; absent, null or "" count as {}
 *   tools, documents   null where absent, as transformers passes them
 * What is no message is left to the template. E_INVALID names the message at fault: a part that is
 * no text, arguments that are no JSON object. */
enum radish_status chat_adapt(yyjson_mut_doc *doc, const struct template_traits *traits,
                              struct radish_error *err) RADISH_CHECK_RESULT;

/* radish_render() over the text side alone; traits NULL: the variables as they are. text has a
 * template. */
enum radish_status chat_render(const struct model_text *text, const struct template_traits *traits,
                               const char *json, size_t json_len,
                               const struct radish_render_options *options, char **text_out,
                               size_t *len_out, struct radish_error *err) RADISH_CHECK_RESULT;

#endif
