/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layer.h"

#include <errno.h>

#include "base/str.h"

static const struct {
	const char *name;
	enum level from;
} layers[LAYER_COUNT] = {
#define X(id, name, level) [LAYER_##id] = { name, LEVEL_##level },
	LAYER_TABLE(X)
#undef X
};

static const char *const level_names[LEVEL_COUNT] = {
	[LEVEL_STRICT] = "strict",
	[LEVEL_STANDARD] = "standard",
	[LEVEL_DEGRADED_OK] = "degraded-ok",
};

const char *layer_name(enum layer_id id)
{
	return (unsigned)id < LAYER_COUNT ? layers[id].name : "unknown";
}

uint32_t layers_required(enum level level)
{
	uint32_t mask = 0;

	if ((unsigned)level >= LEVEL_COUNT)
		return LAYERS_ALL; /* a corrupt level must not mean "nothing" */
	for (unsigned i = 0; i < LAYER_COUNT; i++)
		if (layers[i].from >= level)
			mask |= UINT32_C(1) << i;
	return mask;
}

enum level layers_level(uint32_t enforced)
{
	for (unsigned l = 0; l < LEVEL_COUNT; l++)
		if ((layers_required((enum level)l) & ~enforced) == 0)
			return (enum level)l;
	return LEVEL_COUNT;
}

const char *level_name(enum level level)
{
	return (unsigned)level < LEVEL_COUNT ? level_names[level] : "none";
}

int level_from_name(const char *name, enum level *ret)
{
	for (unsigned l = 0; l < LEVEL_COUNT; l++) {
		if (streq(name, level_names[l])) {
			*ret = (enum level)l;
			return 0;
		}
	}
	return -EINVAL;
}
