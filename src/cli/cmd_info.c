/* cmd_info.c - radish info: what was found of the machine, which kernels were chosen and why, and
 * with a model how its memory would be laid out. The library writes the report, so that a server's
 * log and this command say the same; here it is only printed. */
#include "command.h"

#include <string.h>

int cmd_info(struct args *args) {
    struct radish_model *model = NULL;
    struct radish_error err = {0};
    char *text = NULL;
    int rc = command_check_engine(args);
    if (rc < 0 && args->model) rc = command_open_model(args, &model);
    if (rc < 0) {
        enum radish_status status = radish_info_text(model, &args->engine, &text, &err);
        if (status == RADISH_OK) {
            rc = command_write(text, strlen(text));
        } else {
            command_fail_error(args->model ? args->model : "", &err);
            rc = status == RADISH_E_INVALID ? EXIT_USAGE : EXIT_FAILED;
        }
    }
    radish_free(text);
    radish_model_close(model);
    return rc < 0 ? EXIT_DONE : rc;
}
