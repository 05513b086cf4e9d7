/* test_arch.c - names of tensors and the rows that a role takes of one that holds several. */
#include "test.h"

#include "model/arch.h"
#include "model/config_int.h"

enum { HEADS = 6, KV_HEADS = 2, HEAD_DIM = 16, FFN = 40 };

static struct model_config make_config(const char *hf_class) {
    struct model_config config;
    const struct arch *arch = arch_find_hf_class(hf_class);
    assert_non_null(arch);
    config_init(&config);
    config_set_arch(&config, arch, MODEL_FORMAT_SAFETENSORS);
    config.n_layers = 1;
    config.hidden_dim = 96;
    config.head_dim = config.v_head_dim = HEAD_DIM;
    config.n_heads[0] = HEADS;
    config.n_kv_heads[0] = arch->flags & ARCH_NO_GQA ? HEADS : KV_HEADS;
    config.ffn_dim[0] = FFN;
    return config;
}

static const struct arch_tensor *find_row(const struct model_config *config, const char *role) {
    size_t n;
    const struct arch_tensor *rows = arch_tensors(&n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].role, role) && arch_has_tensor(config, &rows[i])) return &rows[i];
    fail_msg("%s has no %s", config->arch->name, role);
    return NULL;
}

static void test_names_hold_the_layer_and_may_have_alternatives(void **state) {
    (void)state;
    struct model_config config = make_config("PhiForCausalLM");
    const struct arch_tensor *row = find_row(&config, "k");
    struct arch_name name;

    assert_true(arch_tensor_name(&config, row, MODEL_FORMAT_SAFETENSORS, 12, 0, &name));
    assert_string_equal(name.text, "model.layers.12.self_attn.k_proj.weight");
    assert_false(arch_tensor_name(&config, row, MODEL_FORMAT_SAFETENSORS, 12, 1, &name));
    config.n_heads[12] = config.n_heads[0];
    config.n_kv_heads[12] = config.n_kv_heads[0];
    assert_true(arch_tensor_name(&config, row, MODEL_FORMAT_GGUF, 12, 0, &name));
    assert_string_equal(name.text, "blk.12.attn_k.weight");
    assert_int_equal(name.slice.block, name.slice.total);
    assert_true(arch_tensor_name(&config, row, MODEL_FORMAT_GGUF, 12, 1, &name));
    assert_string_equal(name.text, "blk.12.attn_qkv.weight");
    assert_int_equal(name.slice.first, HEADS * HEAD_DIM);
    assert_false(arch_tensor_name(&config, row, MODEL_FORMAT_GGUF, 12, 2, &name));
}

/* The roles of one tensor take each of its rows once, in the order their own rows have. */
static void check_roles(const char *hf_class, const char *const *roles, size_t n_roles,
                        const char *tensor_name, uint32_t total) {
    struct model_config config = make_config(hf_class);
    bool *is_taken = calloc(total, sizeof *is_taken);
    assert_non_null(is_taken);
    uint32_t n_taken = 0;
    for (size_t k = 0; k < n_roles; k++) {
        const struct arch_tensor *row = find_row(&config, roles[k]);
        struct arch_name name;
        assert_true(arch_tensor_name(&config, row, MODEL_FORMAT_SAFETENSORS, 0, 0, &name));
        assert_string_equal(name.text, tensor_name);
        assert_int_equal(name.slice.total, total);
        for (uint32_t i = 0; i < arch_dim(&config, 0, row->rows); i++) {
            const struct arch_slice *slice = &name.slice;
            uint32_t at = slice->first + i / slice->block * slice->stride + i % slice->block;
            assert_true(at < total && !is_taken[at]);
            is_taken[at] = true;
            n_taken++;
        }
    }
    assert_int_equal(n_taken, total);
    free(is_taken);
}

static void test_roles_of_a_tensor_share_its_rows(void **state) {
    (void)state;
    static const char *const qkv[] = {"q", "k", "v"}, *const gate_up[] = {"gate", "up"};
    check_roles("Phi3ForCausalLM", qkv, 3, "model.layers.0.self_attn.qkv_proj.weight",
                (HEADS + 2 * KV_HEADS) * HEAD_DIM);
    check_roles("Phi3ForCausalLM", gate_up, 2, "model.layers.0.mlp.gate_up_proj.weight", 2 * FFN);
    check_roles("Glm4ForCausalLM", gate_up, 2, "model.layers.0.mlp.gate_up_proj.weight", 2 * FFN);
    check_roles("GPTNeoXForCausalLM", qkv, 3, "gpt_neox.layers.0.attention.query_key_value.weight",
                3 * HEADS * HEAD_DIM);
}

/* GPT-NeoX: Q, K and V of the first head, then of the second. */
static void test_rows_of_heads_lie_head_by_head(void **state) {
    (void)state;
    struct model_config config = make_config("GPTNeoXForCausalLM");
    struct arch_name name;
    assert_true(
        arch_tensor_name(&config, find_row(&config, "v"), MODEL_FORMAT_SAFETENSORS, 0, 0, &name));
    assert_int_equal(name.slice.first, 2 * HEAD_DIM);
    assert_int_equal(name.slice.block, HEAD_DIM);
    assert_int_equal(name.slice.stride, 3 * HEAD_DIM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_hold_the_layer_and_may_have_alternatives),
        cmocka_unit_test(test_roles_of_a_tensor_share_its_rows),
        cmocka_unit_test(test_rows_of_heads_lie_head_by_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
