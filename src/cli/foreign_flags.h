/* foreign_flags.h - what llama.cpp's server, vLLM and SGLang call flags of ours. Threads: any. */
#ifndef CLI_FOREIGN_FLAGS_H
#define CLI_FOREIGN_FLAGS_H

/* What to write here in place of a flag as it was typed ("--max-model-len=4096"), as the end of a
 * sentence; NULL for one that is not known. Static. */
const char *foreign_flag_hint(const char *typed);

#endif
