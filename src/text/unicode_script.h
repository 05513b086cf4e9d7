/* unicode_script.h - which script a character belongs to, for the pre-tokenizer that cuts between
 * scripts. Threads: any. */
#ifndef TEXT_UNICODE_SCRIPT_H
#define TEXT_UNICODE_SCRIPT_H

#include "radish.h"

#define UNICODE_SCRIPT_ANY 0 /* no script: goes with whatever is around it */

uint8_t unicode_script_class(uint32_t c); /* equal for characters of one script */

#endif
