/* openai_fields.c - the table of request fields, and the rule "never silently".
 *
 * A parameter that is parsed and then ignored is the fault users of such servers report most: a
 * schema that is not enforced, an n that gives one answer. So every field that OpenAI, SGLang or
 * vLLM clients send has a row here, with one of three fates:
 *
 *   READ     another file reads and checks it (openai_types.c, openai_messages.c, ep_*.c).
 *   INERT    cannot change the answer (names for billing, hints for caches): any value is fine.
 *   a list   of the JSON values, one a line, that ask for what happens anyway; null always is one.
 *            Anything else is 400, with the hint of the row. */
#include "openai_fields.h"

#define READ   FIELD_READ
#define INERT  FIELD_INERT
#define BOTH   (API_CHAT | API_COMPLETIONS)
#define ANY    (BOTH | API_TOKENIZE | API_DETOKENIZE)
#define RENDER (API_CHAT | API_TOKENIZE) /* what reaches a chat template */

static const char constrained[] = "output is not constrained here";

static const struct field_row rows[] = {
    {"model", ANY, READ, ""},
    {"stream", BOTH, READ, ""},
    {"stream_options", BOTH, READ, ""},
    {"max_tokens", BOTH, READ, ""},
    {"max_completion_tokens", API_CHAT, READ, ""},
    {"min_tokens", BOTH, READ, ""},
    {"temperature", BOTH, READ, ""},
    {"top_p", BOTH, READ, ""},
    {"top_k", BOTH, READ, ""},
    {"min_p", BOTH, READ, ""},
    {"repetition_penalty", BOTH, READ, ""},
    {"presence_penalty", BOTH, READ, ""},
    {"frequency_penalty", BOTH, READ, ""},
    {"seed", BOTH, READ, ""},
    {"n", BOTH, READ, ""},
    {"best_of", BOTH, READ, ""},
    {"stop", BOTH, READ, ""},
    {"stop_token_ids", BOTH, READ, ""},
    {"ignore_eos", BOTH, READ, ""},
    {"no_stop_trim", BOTH, READ, ""},
    {"include_stop_str_in_output", BOTH, READ, ""},
    {"skip_special_tokens", BOTH | API_DETOKENIZE, READ, ""},
    {"logit_bias", BOTH, READ, ""},
    {"logprobs", BOTH, READ, ""},
    {"top_logprobs", API_CHAT, READ, ""},
    {"rid", BOTH, READ, ""},
    {"extra_key", BOTH, READ, ""},
    {"cache_salt", BOTH, READ, ""},
    {"priority", BOTH, READ, ""},
    {"messages", RENDER, READ, ""},
    {"tools", RENDER, READ, ""},
    {"tool_choice", RENDER, READ, ""},
    {"documents", RENDER, READ, ""},
    {"add_generation_prompt", RENDER, READ, ""},
    {"continue_final_message", RENDER, READ, ""},
    {"chat_template_kwargs", RENDER, READ, ""},
    {"prompt", API_COMPLETIONS | API_TOKENIZE, READ, ""},
    {"echo", API_COMPLETIONS, READ, ""},
    {"add_special_tokens", API_COMPLETIONS | API_TOKENIZE, READ, ""},
    {"content", API_TOKENIZE, READ, ""},
    {"add_special", API_TOKENIZE, READ, ""},
    {"with_pieces", API_TOKENIZE, READ, ""},
    {"return_token_strs", API_TOKENIZE, READ, ""},
    {"tokens", API_DETOKENIZE, READ, ""},

    {"user", ANY, INERT, ""},
    {"metadata", BOTH, INERT, ""},
    {"safety_identifier", BOTH, INERT, ""},
    {"prompt_cache_key", BOTH, INERT, ""},
    {"prompt_cache_retention", BOTH, INERT, ""},
    {"return_cached_tokens_details", BOTH, INERT, ""},
    {"separate_reasoning", API_CHAT, INERT, ""},
    {"stream_reasoning", API_CHAT, INERT, ""},

    {"response_format", BOTH, "{\"type\":\"text\"}", constrained},
    {"json_schema", BOTH, "", constrained},
    {"regex", BOTH, "", constrained},
    {"ebnf", BOTH, "", constrained},
    {"structural_tag", BOTH, "", constrained},
    {"grammar", BOTH, "", constrained},
    {"guided_json", BOTH, "", constrained},
    {"guided_regex", BOTH, "", constrained},
    {"guided_choice", BOTH, "", constrained},
    {"guided_grammar", BOTH, "", constrained},
    {"structured_outputs", BOTH, "", constrained},
    {"stop_regex", BOTH, "", "use stop"},
    {"parallel_tool_calls", API_CHAT, "true",
     "how many calls there are is the model's choice: output is not constrained here"},
    {"functions", API_CHAT, "[]", "use tools"},
    {"function_call", API_CHAT, "\"none\"\n\"auto\"", "use tools"},
    {"input_ids", BOTH, "", "send ids as the prompt of /v1/completions"},
    {"chat_template", RENDER, "",
     "a template is not taken from a request: start the server with --chat-template"},
    {"reasoning_effort", RENDER, "", "a template's own switches go into chat_template_kwargs"},
    {"echo", API_CHAT, "false", "use /v1/completions"},
    {"add_special_tokens", API_CHAT, "false", "the chat template writes them"},
    {"modalities", API_CHAT, "[\"text\"]", "text only"},
    {"audio", API_CHAT, "", "text only"},
    {"prediction", API_CHAT, "", ""},
    {"verbosity", API_CHAT, "\"medium\"", ""},
    {"web_search_options", API_CHAT, "", ""},
    {"suffix", API_COMPLETIONS, "\"\"", "put it into the prompt"},
    {"prompt_logprobs", BOTH, "", "use echo with logprobs on /v1/completions"},
    {"truncate_prompt_tokens", BOTH, "", "prompts are never cut"},
    {"return_hidden_states", BOTH, "false", ""},
    {"return_token_ids", BOTH, "false", ""},
    {"return_tokens_as_token_ids", BOTH, "false", ""},
    {"parse_special", API_TOKENIZE, "true", "special tokens in a text are always taken as such"},
    {"media_io_kwargs", RENDER, "{}", "text only"},
    {"mm_processor_kwargs", RENDER, "{}", "text only"},
    {"spaces_between_special_tokens", BOTH | API_DETOKENIZE, "true", ""},
    {"use_beam_search", BOTH, "false", ""},
    {"length_penalty", BOTH, "1\n1.0", ""},
    {"early_stopping", BOTH, "false", ""},
    {"allowed_token_ids", BOTH, "", "use logit_bias"},
    {"bad_words", BOTH, "[]", "use logit_bias"},
    {"custom_logit_processor", BOTH, "", ""},
    {"custom_params", BOTH, "", ""},
    {"lora_path", BOTH, "", ""},
    {"session_params", BOTH, "", ""},
    {"data_parallel_rank", BOTH, "0", "there is one rank"},
    {"routed_dp_rank", BOTH, "0", "there is one rank"},
    {"store", BOTH, "false", "nothing is stored here"},
    {"service_tier", BOTH, "\"auto\"\n\"default\"", ""},
};

const struct field_table openai_fields = {rows, sizeof rows / sizeof *rows};
