/* cmd_list.c - radish list: the models that a name can mean on this machine.
 *
 * Both caches are shown, with the name to type first and the path last, since paths are long: what
 * lies in huggingface_hub's cache can be used just as well and is not downloaded twice. --json is
 * one object a line, for scripts. */
#include "command.h"

#include "format/model_cache.h"
#include "pull_progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

static bool print_json(const struct model_cache_entry *entry) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = doc ? yyjson_mut_obj(doc) : NULL;
    char *text = NULL;
    if (root && yyjson_mut_obj_add_str(doc, root, "name", entry->name) &&
        yyjson_mut_obj_add_uint(doc, root, "bytes", entry->bytes) &&
        yyjson_mut_obj_add_str(doc, root, "path", entry->path) &&
        yyjson_mut_obj_add_str(doc, root, "cache", entry->is_foreign ? "huggingface" : "radish")) {
        yyjson_mut_doc_set_root(doc, root);
        text = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    }
    if (text) puts(text);
    yyjson_mut_doc_free(doc);
    free(text);
    return text != NULL;
}

static void print_table(const struct model_cache_list *list) {
    int width = 4;
    for (size_t i = 0; i < list->n; i++)
        if ((int)strlen(list->entries[i].name) > width) width = (int)strlen(list->entries[i].name);
    printf("%-*s  %10s  %s\n", width, "NAME", "SIZE", "PATH");
    for (size_t i = 0; i < list->n; i++) {
        char size[24];
        pull_size_text(list->entries[i].bytes, size, sizeof size);
        printf("%-*s  %10s  %s\n", width, list->entries[i].name, size, list->entries[i].path);
    }
}

int cmd_list(struct args *args) {
    struct radish_error err = {0};
    struct model_cache_list list = {0};
    char *folder = NULL, *foreign = NULL;
    int rc = EXIT_DONE;
    if (args->model)
        return args_refuse(command_by_bit(COMMAND_LIST), "'%.80s' is one argument too many",
                           args->model);
    if (model_cache_folder(&folder, &err) != RADISH_OK) return command_fail_error("", &err);
    foreign = model_cache_foreign_folder();
    if (model_cache_list_in(folder, foreign, &list, &err) != RADISH_OK)
        rc = command_fail_error("", &err);
    for (size_t i = 0; rc == EXIT_DONE && args->json && i < list.n; i++)
        if (!print_json(&list.entries[i])) rc = command_fail("out of memory");
    if (rc == EXIT_DONE && !args->json && list.n) print_table(&list);
    if (rc == EXIT_DONE && !list.n)
        fprintf(stderr, "radish: no models in %s; 'radish pull ORG/NAME' fetches one\n", folder);
    model_cache_list_deinit(&list);
    free(folder);
    free(foreign);
    return rc;
}
