/* cmd_info.c - radish info: what was found of the machine, which kernels were chosen and why, and
 * with a model how its memory would be laid out. The library writes the report, so that a server's
 * log and this command say the same; here it is only printed. */
#include "command.h"

#include <string.h>

int cmd_info(struct args *args) {
    struct radish_model *model = NULL;
    struct radish_error err = {0};
    char *text = NULL;
    int rc = args->model ? command_open_model(args, &model) : -1;
    if (rc < 0) {
        enum radish_status status = radish_info_text(model, &args->engine, &text, &err);
        rc = status == RADISH_OK ? command_write(text, strlen(text))
                                 : command_fail_open(args->model ? args->model : "", &err);
    }
    radish_free(text);
    radish_model_close(model);
    return rc < 0 ? EXIT_DONE : rc;
}
