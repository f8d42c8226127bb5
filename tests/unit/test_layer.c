/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/str.h"
#include "model/layer.h"

Test(layer, strict_requires_every_layer)
{
	cr_expect(layers_required(LEVEL_STRICT) == LAYERS_ALL);
	cr_expect(layers_level(LAYERS_ALL) == LEVEL_STRICT);
}

Test(layer, each_level_requires_less_than_the_one_before)
{
	for (unsigned l = 1; l < LEVEL_COUNT; l++) {
		uint32_t stronger = layers_required((enum level)(l - 1));
		uint32_t weaker = layers_required((enum level)l);

		cr_expect((weaker & ~stronger) == 0);
		cr_expect(weaker != stronger);
	}
}

Test(layer, degraded_still_requires_the_boundary)
{
	uint32_t m = layers_required(LEVEL_DEGRADED_OK);

	cr_expect(m & LAYER_BIT(USER_NS));
	cr_expect(m & LAYER_BIT(MOUNT_NS));
	cr_expect(m & LAYER_BIT(PID_NS));
	cr_expect(m & LAYER_BIT(NET_NS));
	cr_expect(m & LAYER_BIT(SECCOMP));
	cr_expect(m & LAYER_BIT(NO_NEW_PRIVS));
	cr_expect(m & LAYER_BIT(CAPABILITIES));
	cr_expect(!(m & LAYER_BIT(CG_MEMORY)));
}

Test(layer, standard_requires_the_cgroup_limits)
{
	uint32_t m = layers_required(LEVEL_STANDARD);

	cr_expect(m & LAYER_BIT(CG_MEMORY));
	cr_expect(m & LAYER_BIT(CG_PIDS));
	cr_expect(m & LAYER_BIT(CG_CPU));
	cr_expect(m & LAYER_BIT(LANDLOCK));
	cr_expect(!(m & LAYER_BIT(TIME_NS)));
}

Test(layer, a_set_meets_the_best_level_it_has_all_layers_of)
{
	for (unsigned l = 0; l < LEVEL_COUNT; l++)
		cr_expect(layers_level(layers_required((enum level)l)) == (enum level)l);
	cr_expect(layers_level(0) == LEVEL_COUNT);
}

Test(layer, one_missing_required_layer_loses_the_level)
{
	for (unsigned l = 0; l < LEVEL_COUNT; l++) {
		uint32_t need = layers_required((enum level)l);

		for (unsigned i = 0; i < LAYER_COUNT; i++) {
			uint32_t bit = UINT32_C(1) << i;

			if (need & bit)
				cr_expect(layers_level(LAYERS_ALL & ~bit) > (enum level)l,
				          "%s without %s", level_name((enum level)l),
				          layer_name((enum layer_id)i));
		}
	}
}

Test(layer, a_corrupt_level_requires_everything)
{
	cr_expect(layers_required(LEVEL_COUNT) == LAYERS_ALL);
	cr_expect(layers_required((enum level)77) == LAYERS_ALL);
}

Test(layer, names_are_unique_and_out_of_range_is_safe)
{
	for (unsigned i = 0; i < LAYER_COUNT; i++)
		for (unsigned k = 0; k < i; k++)
			cr_expect(
				!streq(layer_name((enum layer_id)i), layer_name((enum layer_id)k)));
	cr_expect_str_eq(layer_name(LAYER_COUNT), "unknown");
	cr_expect_str_eq(level_name(LEVEL_COUNT), "none");
}

Test(layer, levels_are_found_by_their_names_only)
{
	static const char *const wrong[] = { "", "Strict", "standard ", "degraded", "none" };
	enum level got;

	for (unsigned l = 0; l < LEVEL_COUNT; l++) {
		cr_expect(level_from_name(level_name((enum level)l), &got) == 0);
		cr_expect(got == (enum level)l);
	}
	got = LEVEL_STANDARD;
	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		cr_expect(level_from_name(wrong[i], &got) == -EINVAL, "\"%s\"", wrong[i]);
		cr_expect(got == LEVEL_STANDARD);
	}
}
